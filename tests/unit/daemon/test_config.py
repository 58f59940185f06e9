"""Options: what can be said, and how clearly it is refused."""

from __future__ import annotations

import re
import tomllib

import pytest

from dray.daemon.config import ServeOptions, read_options
from dray.daemon.example import example_file
from dray.errors import InvalidConfiguration
from dray.manager.events import Peer
from dray.model.limits import QUOTA_BYTES_DEFAULT, RESEND_SCHEDULE_S
from dray.net.listening import listen_address
from dray.testing.keyed_manager import id_named


def test_defaults_are_those_of_the_limits():
    config = read_options(data="d").manager_config(b"a" * 32, 7)
    assert config.quota == QUOTA_BYTES_DEFAULT
    assert config.resend_schedule_s == RESEND_SCHEDULE_S
    assert (config.manager_id, config.key) == (id_named("a"), b"a" * 32)
    assert config.name


def test_a_file_is_read_and_what_is_given_wins(tmp_path):
    file = tmp_path / "dray.toml"
    file.write_text(
        'data = "queues"\nlisten = "127.0.0.1:7341"\n'
        'quota = "500 MB"\njournal_quota = "unlimited"\n'
        "resend_schedule_s = [1, 2.5]\nreconnect_delay_s = 1\nwindow_bytes = '8MiB'\n"
    )
    options = read_options(file, name="source", listen=None)
    config = options.manager_config(b"a" * 32, 7)
    assert (options.data, options.listen, config.name) == ("queues", "127.0.0.1:7341", "source")
    assert (config.quota, config.journal_quota) == (500_000_000, None)
    assert config.resend_schedule_s == (1.0, 2.5)
    assert config.window_bytes == 8 << 20


def test_the_file_of_config_init_sets_the_data_directory_alone_and_shows_every_option():
    text = example_file()
    assert tomllib.loads(text) == {"data": "dray-data"}
    shown = {"data", *re.findall(r"^# (?:\[\[)?(\w+)(?: =|\]\])", text, re.MULTILINE)}
    assert shown >= set(ServeOptions.__struct_fields__)


def test_routes_name_managers_as_addresses_do():
    routes = {"C": "dray://b:7341", "[::1]:1": "b"}
    config = read_options(data="d", routes=routes).manager_config(b"a" * 32, 7)
    expected = {Peer("c", 7340): Peer("b", 7341), Peer("::1", 1): Peer("b", 7340)}
    assert config.routes == expected


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"quota": "many"}, "quota: 'many' is not a size"),
        ({"quotas": 3}, "^there is no option 'quotas'$"),
        ({"access": [{"quota": 3}]}, r"^there is no option 'quota' in access\[0\]$"),
        ({"listen": "7340"}, "listen: '7340' is not an address"),
        ({"listen": "127.0.0.1:99999"}, "listen: .* at most 65535"),
        ({"console": "7341"}, "console: '7341' is not an address"),
        ({"http": "h.sock"}, r"http: 'h\.sock' is not .* path of a .* such as \./h\.sock"),
        ({"window_messages": 0}, "above zero"),
        ({"window_bytes": "0"}, "above zero"),
        ({"window_messages": "many"}, "window_messages"),
        ({"resend_schedule_s": []}, "resend_schedule_s"),
        ({"resend_schedule_s": [1.0, float("nan")]}, "resend_schedule_s"),
        ({"reconnect_delay_s": -1}, "reconnect_delay_s"),
        ({"log_level": "loud"}, "log_level"),
        ({"name": "two\nlines"}, "printable"),
        ({"name": "x" * 256}, "printable"),
        ({"log_bytes": "1KiB"}, "log_bytes"),
        ({"idle_transaction_s": 0}, "idle_transaction_s"),
        ({"routes": {"c:7340": "dray://"}}, "routes"),
        ({"routes": {"c": "c:7340"}}, "is routed to itself"),
        ({"log_bytes": "unlimited"}, "log_bytes"),
        ({"express_memory": "unlimited"}, "express_memory"),
        ({"express_memory": -1}, "express_memory"),
        ({"low_water": "unlimited"}, "low_water: 'unlimited' is not a size"),
        ({"low_water": -1}, "low_water: -1 is not a size"),
        ({"data": "a\0b"}, "data: a path has no zero bytes"),
        ({"tls_ca": "a\0b"}, "tls_ca: a path has no zero bytes"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(given, sentence):
    with pytest.raises(InvalidConfiguration, match=sentence):
        read_options(**({"data": "d"} | given))


def test_a_token_that_a_peer_needs_and_that_is_missing_is_refused_by_name(tmp_path):
    peers = [{"address": "drays://depot:7340", "token_file": str(tmp_path / "gone")}]
    options = read_options(data="d", peers=peers)
    with pytest.raises(InvalidConfiguration, match=r"^peers: .*gone: No such file"):
        options.manager_config(b"a" * 32, 7)


def test_the_low_water_mark_is_a_size_that_the_disk_has():
    options = read_options(data="d", low_water="1GiB")
    assert options.manager_config(b"a" * 32, 7).low_water_bytes == 1 << 30
    options.check_disk((1 << 30) + 1)
    with pytest.raises(
        InvalidConfiguration, match=r"low_water: a disk of 1073741824 .* 1073741824"
    ):
        options.check_disk(1 << 30)


def test_a_missing_data_directory_is_named():
    with pytest.raises(InvalidConfiguration, match="data"):
        read_options()


@pytest.mark.parametrize("text", ['data = "d', "data = 1", "\xff", "a = " + "[" * 5_000])
def test_a_file_that_cannot_be_understood_is_named(tmp_path, text):
    file = tmp_path / "dray.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidConfiguration, match=r"dray\.toml"):
        read_options(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidConfiguration, match=r"cannot read .*none\.toml: No such file"):
        read_options(tmp_path / "none.toml")


def test_the_memory_of_express_messages_is_a_size_and_may_be_none():
    assert read_options(data="d").express_bytes == 64 << 20
    assert read_options(data="d", express_memory="1MiB").express_bytes == 1 << 20
    assert read_options(data="d", express_memory=0).express_bytes == 0


def test_a_log_size_is_rounded_up_to_whole_sectors():
    assert read_options(data="d", log_bytes=1_000_001).log_size == 1_000_448


@pytest.mark.parametrize(
    ("text", "address"),
    [("localhost:0", ("localhost", 0)), ("[::1]:7340", ("::1", 7340)), ("h:1", ("h", 1))],
)
def test_addresses_are_host_and_port(text, address):
    assert listen_address(text) == address


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"may": ["send"], "queues": ["a"]}, "who"),
        ({"who": [], "may": ["send"], "queues": ["a"]}, "`who` names nothing"),
        ({"who": ["ada"], "may": ["send"], "queues": ["a"]}, "'ada' is no caller; write user:NAME"),
        ({"who": ["*"], "may": ["sends"], "queues": ["a"]}, "'sends' is no right; choose of see"),
        ({"who": ["*"], "may": ["send"]}, "`queues` names nothing"),
        ({"who": ["*"], "may": ["send"], "queues": [""]}, "'' is no pattern"),
        ({"who": ["*"], "may": ["forward"], "queues": ["a"]}, "`forward` and `hosts` belong"),
        ({"who": ["*"], "may": ["send"], "queues": ["a"], "hosts": ["b"]}, "belong together"),
        ({"who": ["*"], "may": ["send"], "queues": ["a"], "unless": []}, "unless"),
    ],
)
def test_an_access_rule_that_could_never_mean_anything_is_refused(rule, told):
    with pytest.raises(InvalidConfiguration, match=told):
        read_options(data="d", access=[rule])


def test_access_rules_are_those_of_the_file(tmp_path):
    file = tmp_path / "dray.toml"
    file.write_text(
        'data = "d"\nopen = false\n[[access]]\nwho = ["user:ada"]\nhosts = ["b"]\n'
        'may = ["forward"]\n'
    )
    access = read_options(file).manager_config(b"a" * 32, 7).access
    assert not access.is_open
    assert [str(each) for each in access.rules] == [
        'who = ["user:ada"], hosts = ["b"], may = ["forward"]'
    ]

"""An authority of one's own, and the certificates that it signs."""

from __future__ import annotations

import ssl
import stat
import time

import pytest

from dray.errors import InvalidArgument, InvalidConfiguration
from dray.net.certificates import endings, issue, make_authority
from dray.net.tls import presenting, trusting

NOW = time.time()


@pytest.fixture
def folder(tmp_path):
    make_authority(tmp_path, now=NOW)
    return tmp_path


def shaken(folder, shown, called, presented=None):
    """The names that a listener sees in the certificate of a caller, after a handshake."""
    listener = presenting(shown, client_ca=folder / "ca.pem")
    caller = trusting(folder / "ca.pem", presented)
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        caller.wrap_bio(inward, outward, server_hostname=called),
        listener.wrap_bio(outward, inward, server_side=True),
    ]
    waits = list(ends)
    while waits:
        for each in list(waits):
            try:
                each.do_handshake()
                waits.remove(each)
            except ssl.SSLWantReadError:
                continue
    return [name for _, name in ends[1].getpeercert()["subjectAltName"]]


def test_mutual_tls_works_with_what_the_authority_issues(folder):
    depot = issue(folder, "depot", ["127.0.0.1", "depot.example"], now=NOW)
    till = issue(folder, "till", ["2001:db8::1"], now=NOW)
    for called in ("depot", "127.0.0.1", "depot.example"):
        assert shaken(folder, depot, called, till)[0] == "till"
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(folder, depot, "elsewhere", till)


def test_certificates_pass_the_strictest_check(folder, monkeypatch):
    """Python 3.13 and later ask for what OpenSSL calls strict."""
    made = ssl.create_default_context

    def strict(*arguments, **named):
        context = made(*arguments, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    till = issue(folder, "till", [], now=NOW)
    assert shaken(folder, issue(folder, "depot", [], now=NOW), "depot", till) == ["till"]


def test_the_name_comes_first_and_once(folder):
    till = issue(folder, "till", ["till.example", "till"], now=NOW)
    depot = issue(folder, "depot", [], now=NOW)
    assert shaken(folder, depot, "depot", till) == ["till", "till.example"]


def test_only_the_owner_can_read_what_is_made(folder):
    issue(folder, "depot", [], now=NOW)
    files = sorted(folder.iterdir())
    assert [each.name for each in files] == ["ca.key", "ca.pem", "depot.pem"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}


def test_no_file_is_replaced(folder):
    key = (folder / "ca.key").read_bytes()
    with pytest.raises(InvalidConfiguration, match=r"ca\.pem is there already"):
        make_authority(folder, now=NOW)
    (folder / "ca.pem").rename(folder / "elsewhere")
    with pytest.raises(InvalidConfiguration, match=r"ca\.key is there already"):
        make_authority(folder, now=NOW)
    assert (folder / "ca.key").read_bytes() == key
    assert not (folder / "ca.pem").exists()
    (folder / "elsewhere").rename(folder / "ca.pem")
    (folder / "depot.pem").symlink_to(folder / "planted")
    with pytest.raises(InvalidConfiguration, match=r"depot\.pem is there already"):
        issue(folder, "depot", [], now=NOW)
    assert not (folder / "planted").exists()


@pytest.mark.parametrize("name", ["", "../up", "a b", "a\n", "ä.example"])
def test_a_name_that_no_host_can_have_is_refused(folder, name):
    with pytest.raises(InvalidArgument, match="cannot be a name in a certificate"):
        issue(folder, name, [], now=NOW)
    with pytest.raises(InvalidArgument, match="cannot be a name in a certificate"):
        issue(folder, "good", [name], now=NOW)


def test_a_folder_without_its_authority_is_refused(folder, tmp_path):
    with pytest.raises(InvalidConfiguration, match="dray cert init"):
        issue(tmp_path / "none", "depot", [], now=NOW)
    other = tmp_path / "other"
    other.mkdir()
    make_authority(other, now=NOW)
    (other / "ca.key").replace(folder / "ca.key")
    with pytest.raises(InvalidConfiguration, match=r"ca\.key is not the key of"):
        issue(folder, "depot", [], now=NOW)
    (folder / "ca.key").write_text("nothing")
    with pytest.raises(InvalidConfiguration, match="no authority of `dray cert init`"):
        issue(folder, "depot", [], now=NOW)


def test_the_end_of_each_certificate_of_a_file_is_known(folder):
    (found,) = endings(issue(folder, "depot", [], now=NOW, days=5))
    assert found.name == "CN=depot"
    assert found.ends.timestamp() == pytest.approx(NOW + 5 * 86_400, abs=3601)
    with pytest.raises(InvalidConfiguration, match="holds no certificates"):
        endings(folder / "none.pem")


def test_a_certificate_without_its_key_is_told_from_a_file_that_is_not_there(folder):
    with pytest.raises(
        InvalidConfiguration, match=r"ca\.pem does not hold a certificate and its private key: "
    ):
        presenting(folder / "ca.pem")
    with pytest.raises(InvalidConfiguration, match=r"gone\.pem cannot be read: No such file"):
        presenting(folder / "gone.pem")
    with pytest.raises(InvalidConfiguration, match=r"ca\.pem and \S+gone\.key cannot be read: No"):
        presenting(folder / "ca.pem", folder / "gone.key")

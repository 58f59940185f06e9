"""The door of the console: who comes in, by which name, from which page, and with whose rights."""

from __future__ import annotations

import html
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import dray
from tests.browser.programs import ConsoleProcess, managed
from tests.integration.commands import dray as command
from tests.integration.commands import environment, finish, started, until

pytestmark = pytest.mark.slow
STORY = f"/story?id={'0' * 32}%5C1"
NOBODY = "dray://127.0.0.1:1"
RULES = """
[[access]]
who = ["token:alice", "cert:ada"]
queues = ["hers", "largemessageq", "statusq"]
may = ["manage", "send", "receive", "peek"]

[[access]]
who = ["token:alice"]
queues = ["blind"]
may = ["manage"]
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with managed(tmp_path_factory.mktemp("door")) as url:
        yield url


@pytest.fixture(scope="module")
def console(url, tmp_path_factory):
    console = ConsoleProcess(url, tmp_path_factory.mktemp("door-console"))
    yield console
    assert console.stop() == 0
    assert console.logged() == ""


@pytest.fixture
def client(console):
    with console.client() as client:
        yield client


def test_the_start_link_works_once_and_its_file_is_for_its_owner_alone(console):
    assert stat.S_IMODE(console.link_file.stat().st_mode) == 0o600
    link = console.link_file.read_text().strip()
    assert httpx.head(link).status_code == 403
    first = httpx.get(link)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    again = httpx.get(link)
    assert again.status_code == 403
    assert "set-cookie" not in again.headers
    assert str(console.link_file) in again.text
    assert console.link_file.read_text().strip() != link


def test_nobody_comes_in_without_a_session(console):
    for path in ("/", "/sample", "/sample/queue", "/no/such/page"):
        answer = httpx.get(console.address + path)
        assert answer.status_code == 401
        assert "vm" not in re.sub(r"<[^>]*>", "", answer.text)
    forged = {re.sub(r"\W", "-", "dray-console"): "x" * 43}
    assert httpx.get(console.address + "/sample", cookies=forged).status_code == 401


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:7341", "127.0.0.1.evil.example", "localhost@evil", "", "a b"],
)
def test_a_rebound_name_is_refused_with_a_session_too(client, host):
    answer = client.get("/sample", headers={"Host": host})
    assert answer.status_code in {400, 421}
    assert "largemessageq" not in answer.text


def test_names_of_loopback_are_taken_with_any_port_as_a_forwarded_one_has(client):
    del client.headers["Origin"]
    for host in ("localhost", "localhost:9999", "[::1]:7341", "LOCALHOST"):
        assert client.get("/sample", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/static/console.css", "/queues/act", "/no/such/page"])
def test_nothing_follows_a_request_of_which_a_proxy_may_see_another_end(console, path):
    port = int(console.address.rpartition(":")[2])
    lines = ["Host: localhost", "Content-Length: 6", "Transfer-Encoding: chunked"]
    said = "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", "0", "", ""])
    hidden = "GET /static/console.css HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as wire:
        wire.sendall((said + hidden).encode())
        found = bytearray()
        while piece := wire.recv(65536):
            found += piece
    assert found.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost", "http://127.0.0.1:1"]
)
def test_a_request_from_another_origin_is_refused(client, method, origin):
    answer = client.request(method, "/sample/afresh", headers={"Origin": origin})
    assert answer.status_code == 403
    assert "came from another site" in answer.text


def test_a_change_without_an_origin_is_refused(client, url):
    del client.headers["Origin"]
    answer = client.post("/sample/afresh", data={"a": "b"})
    assert answer.status_code == 403
    assert "does not say which page it came from" in answer.text


def test_every_answer_forbids_foreign_scripts_frames_and_guessing(client, console):
    assets = re.findall(r'(?:src|href)="(/static/[^"]+)"', client.get("/sample").text)
    assert len(assets) >= 4
    for path in ("/sample", "/no", "/healthz", *assets):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert client.get("/sample").headers["cache-control"] == "no-store"


def test_pages_have_no_inline_script_or_style(client):
    for path in ("/sample", "/sample/afresh", "/no"):
        text = client.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", text)


def test_leaving_ends_the_session(console):
    with console.client() as client:
        cookies = dict(client.cookies)
        assert client.post("/sign-out").status_code == 303
    assert httpx.get(console.address + "/sample", cookies=cookies).status_code == 401


def test_no_secret_is_logged(url, tmp_path):
    console = ConsoleProcess(url, tmp_path / "c", "--quiet")
    link = console.link_file.read_text().strip()
    name, value = console.session()
    httpx.get(console.address + "/sample", cookies={name: value})
    httpx.get(f"{console.address}/start/wrong")
    assert console.stop() == 0
    token = link.rpartition("/")[2]
    assert token not in console.said
    assert str(console.folder) in console.said
    assert console.logged() == ""
    assert not list(console.folder.glob("*.url"))


def test_a_start_link_that_fails_is_not_logged(url, tmp_path):
    """The line of the failure names the file, and not the token in the address."""
    console = ConsoleProcess(url, tmp_path / "c")
    link = console.link_file.read_text().strip()
    token = link.rpartition("/")[2]
    shutil.move(console.link_file.parent, tmp_path / "aside")
    answer = httpx.get(link)
    assert answer.status_code == 500
    assert console.stop() in (0, 1)
    logged = (tmp_path / "aside/console.log").read_text()
    assert "the next start link cannot be written" in logged
    assert "Start the console again" in answer.text
    for said in (logged, answer.text):
        assert token not in said


@pytest.mark.slow
def test_a_console_that_ends_says_nothing_of_a_download_that_it_cuts_off(url, tmp_path):
    with dray.connect(url) as manager:
        queue = manager.create_queue("long", exist_ok=True)
        dray.LargeMessageQueue(queue).send(bytes(40_000_000))
        (found,) = queue.contents()
    console = ConsoleProcess(url, tmp_path)
    with console.client() as client:
        path = f"/queues/message/body?queue=long&at={found.lookup_id}"
        with client.stream("GET", path) as answer:
            assert answer.status_code == 200
            assert console.stop() == 0
    assert console.logged() == ""


def test_a_unix_socket_is_for_its_owner_alone(url, tmp_path):
    path = tmp_path / "console.sock"
    console = ConsoleProcess(url, tmp_path, "--listen", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
        link = (tmp_path / "console.sock.url").read_text().strip()
        assert client.get(link).status_code == 303
        assert client.get("http://localhost/sample").status_code == 200
    assert console.stop() == 0
    assert not path.exists()


def test_an_address_that_others_reach_needs_tls(url):
    said = command("console", "--listen", "0.0.0.0:0", url=url)
    assert "--tls-cert" in said.assert_error("invalid-configuration")


@pytest.fixture
def office(tmp_path):
    """A queue manager with a token, and a console at an address that others reach."""
    config = tmp_path / "dray.toml"
    config.write_text(RULES)
    data = tmp_path / "data"
    token = command("token", "create", "alice", "--data", data).assert_good().out.strip()
    command("cert", "init", "--dir", tmp_path).assert_good()
    issue = ("cert", "issue", "console", "--dir", tmp_path, "--host", "console.test")
    command(*issue).assert_good()
    command("cert", "issue", "ada", "--dir", tmp_path).assert_good()
    (tmp_path / "strangers").mkdir()
    command("cert", "init", "--dir", tmp_path / "strangers").assert_good()
    command("cert", "issue", "ada", "--dir", tmp_path / "strangers").assert_good()
    with managed(tmp_path, "--config", str(config)) as url:
        with dray.connect(url) as manager:
            manager.create_queue("hers")
            manager.create_queue("secret")
            manager.create_queue("blind")
        cert = str(tmp_path / "console.pem")
        tls = ("--tls-cert", cert, "--tls-client-ca", str(tmp_path / "ca.pem"), "--also", NOBODY)
        console = ConsoleProcess(url, tmp_path / "c", "--listen", "0.0.0.0:0", *tls)
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        port = console.address.rpartition(":")[2]
        yield console, context, port, token
        console.stop()


def test_on_the_network_a_visitor_signs_in_with_a_token_and_has_its_rights(office):
    console, context, port, token = office
    assert not list(console.folder.glob("*.url"))
    place = f"https://console.test:{port}"
    here = f"https://127.0.0.1:{port}"
    headers = {"Host": f"console.test:{port}", "Origin": place}
    named = {"sni_hostname": "console.test"}
    with httpx.Client(base_url=here, headers=headers, verify=context) as client:
        assert client.get("/sample", extensions=named).status_code == 401
        wrong = client.post("/sign-in", data={"token": "wrong" * 9}, extensions=named)
        assert wrong.status_code == 403
        answer = client.post("/sign-in", data={"token": token}, extensions=named)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-")
        assert "Secure" in cookie
        client.headers["Cookie"] = cookie.partition(";")[0]
        page = client.get("/sample", extensions=named)
        assert page.status_code == 200
        assert "Empty" in page.text
        story = client.get(STORY, extensions=named)
        assert story.status_code == 200
        assert NOBODY not in story.text, "other queue managers are for the console's own visitors"
        strange = client.get("/sample", headers={"Host": "evil.test"}, extensions=named)
        assert strange.status_code == 421
    assert console.logged() == ""


def test_a_sign_in_shows_the_page_that_was_asked_for_and_never_another_site(office):
    _, context, port, token = office
    here = f"https://127.0.0.1:{port}"
    headers = {"Host": f"console.test:{port}", "Origin": f"https://console.test:{port}"}
    asked = "/queues/one?name=hers&after=0"
    with httpx.Client(base_url=here, headers=headers, verify=context) as client:

        def call(method, path, **form):
            named = {"sni_hostname": "console.test"}
            return client.request(method, path, data=form or None, extensions=named)

        for closed in (call("GET", asked), call("POST", "/sign-in", token="wrong" * 9, page=asked)):
            (page,) = re.findall(r'name="page" value="([^"]*)"', closed.text)
            assert html.unescape(page) == asked
        client.cookies.clear()
        assert call("POST", "/sign-in", token=token, page=asked).headers["location"] == asked
        strange = [
            "//evil.test",
            "/\\evil.test",
            "https://evil.test",
            "/\t/evil.test",
            "",
            "/sign-in",
        ]
        for page in strange:
            assert call("POST", "/sign-in", token=token, page=page).headers["location"] == "/"
            client.cookies.clear()


def presenting(context, folder, name="ada"):
    """The same trust, with a certificate to present."""
    context.load_cert_chain(folder / f"{name}.pem")
    return context


def test_a_visitor_with_few_rights_is_told_what_they_do_not_show_and_uses_those_it_has(office):
    console, context, port, token = office
    host = f"console.test:{port}"
    named = {"sni_hostname": "console.test"}
    headers = {"Host": host, "Origin": f"https://{host}"}
    client = httpx.Client(base_url=f"https://127.0.0.1:{port}", headers=headers, verify=context)

    def call(method, path, **more):
        return client.request(method, path, extensions=named, **more)

    with client:
        cookie = call("POST", "/sign-in", data={"token": token}).headers["set-cookie"]
        client.headers["Cookie"] = cookie.partition(";")[0]
        assert "in all that you may see" in call("GET", "/").text
        assert "no outgoing queue that you may see" in call("GET", "/deliveries").text
        letters = call("GET", "/deadletters")
        assert letters.status_code == 403
        assert "You may not see the dead letters" in letters.text
        page = call("GET", "/queues/one?name=blind")
        assert page.status_code == 200
        assert "token:alice may not peek at the queue" in page.text
        assert "Purge…" in page.text
        purged = call("POST", "/queues/act", data={"name": "blind", "act": "purge"})
        assert purged.status_code == 303
        call("PUT", "/sample/sent/large?label=holed&fragment_size=10", content=b"x" * 30)
        hole = call("POST", "/sample/receive", data={"drop": "fragment", "number": "2"})
        assert "Not received." in hole.text
        assert "lacks fragment 2" in hole.text
    assert console.logged() == ""


def test_a_visitor_with_a_certificate_has_its_rights_and_needs_no_token(office, tmp_path):
    console, context, port, _ = office
    named = {"sni_hostname": "console.test"}
    host = f"console.test:{port}"
    headers = {"Host": host, "Origin": f"https://{host}"}
    client = httpx.Client(
        base_url=f"https://127.0.0.1:{port}", headers=headers, verify=presenting(context, tmp_path)
    )

    def call(method, path, **more):
        return client.request(method, path, extensions=named, **more)

    with client:
        page = call("GET", "/queues?all=yes")
        assert page.status_code == 200
        assert "hers" in page.text
        assert "secret" not in page.text
        assert "set-cookie" not in page.headers
        assert call("GET", "/queues/one?name=secret").status_code == 404
        story = call("GET", STORY)
        assert (story.status_code, NOBODY in story.text) == (200, False)
        act = {"name": "hers", "act": "quota", "quota": "1 MiB"}
        assert call("POST", "/queues/act", data=act).status_code == 303
        assert "The quotas of hers are set." in call("GET", "/queues").text
        sent = call("POST", "/v1/queues/hers/messages", content=b"by certificate")
        assert sent.status_code == 201
        assert call("GET", "/v1/queues/secret").status_code == 404
        assert (
            call("GET", "/v1/queues/hers", headers={"Authorization": "Bearer x"}).status_code == 401
        )
        for elsewhere in ({"Origin": "https://evil.test"}, {"Host": "evil.test"}):
            assert call("POST", "/queues/act", data=act, headers=elsewhere).status_code in {
                403,
                421,
            }
            foreign = call("POST", "/v1/queues/hers/messages", content=b"x", headers=elsewhere)
            assert foreign.status_code in {403, 421}
        embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
        del client.headers["Origin"]
        assert call("GET", "/queues", headers=embedded).status_code == 403
        assert call("GET", "/v1/queues", headers=embedded).status_code == 403
        followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert call("GET", "/queues", headers=followed).status_code == 200
    strange = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    verify = presenting(strange, tmp_path / "strangers")
    with httpx.Client(verify=verify) as stranger, pytest.raises(httpx.HTTPError):
        stranger.get(f"https://127.0.0.1:{port}/", extensions=named)
    assert console.logged() == ""


def test_a_visitor_with_a_certificate_is_told_that_the_queue_manager_is_away(tmp_path):
    for issue in (("init",), ("issue", "console", "--host", "127.0.0.1"), ("issue", "ada")):
        command("cert", *issue, "--dir", tmp_path).assert_good()
    ca, cert = str(tmp_path / "ca.pem"), str(tmp_path / "console.pem")
    with managed(tmp_path) as url:
        console = ConsoleProcess(url, tmp_path / "c", "--tls-cert", cert, "--tls-client-ca", ca)
    context = presenting(ssl.create_default_context(cafile=ca), tmp_path)
    try:
        with httpx.Client(base_url=console.address, verify=context) as client:
            answer = client.get("/queues")
    finally:
        console.stop()
    assert answer.status_code == 503
    assert "No queue manager answers at" in answer.text
    assert console.logged() == ""


def test_no_cookie_and_no_token_is_taken_for_the_name_of_a_certificate(office):
    console, context, port, _ = office
    named = {"sni_hostname": "console.test"}
    host = f"console.test:{port}"
    headers = {"Host": host, "Origin": f"https://{host}"}
    with httpx.Client(
        base_url=f"https://127.0.0.1:{port}", headers=headers, verify=context
    ) as client:
        name = f"__Host-dray-console-{port}"
        forged = client.get("/", headers={"Cookie": f"{name}=cert:ada"}, extensions=named)
        assert forged.status_code == 401
        said = client.post("/sign-in", data={"token": "cert:ada"}, extensions=named)
        assert said.status_code == 403
        bearer = {"Authorization": "Bearer cert:ada"}
        assert client.get("/v1/queues", headers=bearer, extensions=named).status_code == 401
    assert console.logged() == ""


def child_of(process):
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    (child,) = " ".join((task / "children").read_text() for task in tasks).split()
    return int(child)


def test_a_start_link_that_cannot_be_written_is_the_reason_that_serve_gives(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    said = command("serve", "--data", tmp_path / "data", "--console", "127.0.0.1:0")
    assert said.status == 1
    reason, end = said.err.splitlines()[-2:]
    assert reason.startswith("dray: target-unwritable: the start link of the console cannot be")
    assert str(tmp_path / "file") in reason
    assert end.startswith("dray: error: console ended with status 25 before it was ready")


def test_serve_runs_a_console_beside_it_which_gives_way_to_it_and_ends_it(tmp_path):
    with started("serve", "--data", tmp_path / "data", "--console", "127.0.0.1:0") as process:
        said = process.stdout.readline().decode()
        address = re.search(r"console ready at (http://\S+); open the link in (\S+)", said)
        assert httpx.get(f"{address[1]}/healthz").status_code == 200
        own, its = (os.getpriority(os.PRIO_PROCESS, each) for each in (0, child_of(process)))
        assert its >= min(own + 10, 19), "the queue manager has the processor first"
        process.terminate()
        assert finish(process).status == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address[1]}/healthz")


def test_a_console_that_is_killed_is_started_again_at_its_address(tmp_path):
    with started("serve", "--data", tmp_path / "data", "--console", "127.0.0.1:0") as process:
        said = process.stdout.readline().decode()
        address = re.search(r"console ready at (http://[^;\s]+)", said)[1]
        os.kill(child_of(process), signal.SIGKILL)

        def answers():
            try:
                return httpx.get(f"{address}/healthz").status_code == 200
            except httpx.HTTPError:
                return False

        until(answers)
        process.terminate()
        ended = finish(process)
        assert ended.status == 0
        assert "it is started again" in ended.err


def renewed(folder, *hosts):
    """Put a new certificate of the console in the place of the old one."""
    (folder / "console.pem").unlink(missing_ok=True)
    named = [word for each in ("127.0.0.1", *hosts) for word in ("--host", each)]
    command("cert", "issue", "console", "--dir", folder, *named).assert_good()


def der(file):
    """The certificate in a file that holds its key, too."""
    begin = "-----BEGIN CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert(begin + file.read_text().partition(begin)[2])


def shown_at(address):
    """The certificate that a console shows."""
    host, _, port = address.removeprefix("https://").rpartition(":")
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port))))


def test_the_console_beside_serve_shows_the_new_certificate_at_sighup(tmp_path):
    command("cert", "init", "--dir", tmp_path).assert_good()
    renewed(tmp_path)
    cert = tmp_path / "console.pem"
    serve = ("serve", "--data", tmp_path / "data", "--tls-cert", cert)
    with started(*serve, "--console", "127.0.0.1:0") as process:
        said = process.stdout.readline().decode()
        address = re.search(r"console ready at (https://[^;\s]+)", said)[1]
        renewed(tmp_path)
        process.send_signal(signal.SIGHUP)
        until(lambda: shown_at(address) == der(cert))
        process.terminate()
        assert finish(process).status == 0


def test_a_console_on_the_network_follows_its_certificate_at_sighup(tmp_path):
    command("cert", "init", "--dir", tmp_path).assert_good()
    renewed(tmp_path)
    cert = tmp_path / "console.pem"
    with managed(tmp_path) as url:
        console = ConsoleProcess(url, tmp_path / "c", "--tls-cert", str(cert))

        def status(host):
            trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
            named = {"Host": host}
            with httpx.Client(base_url=console.address, verify=trusted, headers=named) as client:
                return client.get("/static/console.css").status_code

        try:
            before = der(cert)
            assert status("new.test") == 421
            cert.write_text("no certificate")
            os.kill(console.pid, signal.SIGHUP)
            until(lambda: "shows the old one" in console.logged())
            assert shown_at(console.address) == before
            renewed(tmp_path, "new.test")
            os.kill(console.pid, signal.SIGHUP)
            until(lambda: shown_at(console.address) == der(cert))
            assert status("new.test") == 200
        finally:
            console.stop()


def test_a_console_ends_with_a_queue_manager_that_is_killed(tmp_path):
    with started("serve", "--data", tmp_path / "data", "--console", "127.0.0.1:0") as process:
        said = process.stdout.readline().decode()
        address = re.search(r"console ready at (http://[^;\s]+)", said)[1]
        process.kill()
        process.wait()

        def is_gone():
            try:
                httpx.get(f"{address}/static/console.css")
            except httpx.HTTPError:
                return True
            return False

        until(is_gone)


def test_a_missing_extra_is_one_sentence(tmp_path):

    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from dray.cli.program import run; sys.exit(run(['console']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment()
    )
    assert done.stderr == (
        "dray: invalid-configuration: the console needs the package jinja2; install dray[console]\n"
    )


def test_the_command_loads_no_library_of_the_console_before_it_runs():

    code = (
        "import sys, dray.cli.commands.console, dray.console\n"
        "print({'starlette', 'jinja2', 'uvicorn', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_form_that_breaks_off_is_no_failure_of_the_console(client, console):
    host, _, port = console.address.removeprefix("http://").partition(":")
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    for path in ("/queues/act", "/sample/sent/large"):
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: {console.address}\r\n"
            f"Cookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            "Content-Length: 100\r\n\r\nname=o"
        )
        with socket.create_connection((host, int(port))) as wire:
            wire.sendall(head.encode())
            wire.shutdown(socket.SHUT_WR)
            wire.recv(65536)
    assert client.get("/sample").status_code == 200
    assert console.logged() == ""

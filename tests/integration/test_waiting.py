"""`dray send --wait` between two queue managers: arrived, refused, or still on its way."""

from __future__ import annotations

import subprocess
import threading

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, environment, until
from tests.integration.commands import dray as run

pytestmark = pytest.mark.slow
WITHIN_S = 60


@pytest.fixture(scope="module")
def managers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("waiting")
    with ManagerProcess("here", folder) as here, ManagerProcess("there", folder) as there:
        yield here, there


@pytest.fixture
def send(managers):
    here, there = managers

    def send(queue, *arguments):
        goal = f"dray://127.0.0.1:{there.port}/{queue}"
        return run("send", goal, *arguments, url=here.url)

    return send


@pytest.fixture
def there(managers, request):
    """The destination, with a queue named after the test."""
    with managers[1].connect() as manager:
        yield manager


@pytest.fixture
def here(managers):
    with managers[0].connect() as manager:
        yield manager


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "report"
    path.write_bytes(b"x" * 300_000)
    return path


@pytest.mark.parametrize("large", [[], ["--large"]])
def test_send_waits_until_the_destination_has_accepted_everything(send, there, file, large):
    queue = there.create_queue(f"accepted{len(large)}")
    send(queue.name, "--wait", file, *large).assert_good()
    assert queue.info().message_count > 0


def test_a_wait_leaves_no_queue_behind(send, here):
    def theirs():
        return {each.name for each in here.queues() if each.name.startswith("arrivals")}

    # A watch keeps its queue of acknowledgments for its next start, and another test may run one.
    before = theirs()
    send("missing", "--wait", __file__).assert_error("delivery-refused")
    assert theirs() == before


def test_send_names_the_file_that_was_refused_and_why(send, file):
    said = send("missing", "--wait=60", file)
    line = said.assert_error("delivery-refused")
    assert str(file) in line
    assert "its queue does not exist" in line


def test_a_large_message_of_which_one_part_was_refused_has_not_arrived(send, there, file):
    there.create_queue("narrow", quota=250_000)
    said = send("narrow", "--large", "--fragment-size", "100000", "--wait", file)
    assert "its queue was full" in said.assert_error("delivery-refused")


def test_send_says_that_it_is_still_on_its_way_when_the_time_is_over(managers, file):
    said = run("send", "dray://127.0.0.1:1/nobody", "--wait=0.2", file, url=managers[0].url)
    assert "can still arrive" in said.assert_error("delivery-timeout")


def test_send_waits_until_a_receiver_has_committed(send, there, file):
    queue = there.create_queue("received")
    assert send("received", file, "--wait=received,0.1").assert_error("delivery-timeout")
    queue.receive(WITHIN_S)
    taken = threading.Thread(target=lambda: queue.receive(WITHIN_S))
    taken.start()
    send("received", file, "--wait=received").assert_good()
    taken.join()


def test_a_wait_takes_no_argument_that_is_not_behind_an_equals_sign(managers):
    said = run("send", "--wait", "nowhere", "--wait=soon", url=managers[0].url)
    assert said.status == 2
    assert "'soon' is neither a number of seconds nor 'received'" in said.err


def test_a_folder_loses_its_files_only_once_they_have_arrived(send, there, file, tmp_path):
    queue = there.create_queue("folder")
    state = tmp_path.with_name(tmp_path.name + "-state")
    options = ["--large", "--after", "delete", "--state", state]
    send("folder", tmp_path, *options, "--wait=received,0.1").assert_error("delivery-timeout")
    assert file.exists()
    with dray.LargeMessageQueue(queue).receive(WITHIN_S):
        pass
    other = file.with_name("other")
    other.write_bytes(b"second")
    receiver = threading.Thread(
        target=lambda: dray.LargeMessageQueue(queue).receive(WITHIN_S).commit()
    )
    receiver.start()
    send("folder", tmp_path, *options, "--wait=received").assert_good()
    receiver.join()
    # Nobody knows of the first one that it has arrived.
    assert (file.exists(), other.exists()) == (True, False)


def test_a_watch_removes_a_file_once_a_receiver_at_the_destination_has_it(
    managers, there, file, tmp_path
):
    queue = there.create_queue("watched")
    target = f"dray://127.0.0.1:{managers[1].port}/watched"
    state = tmp_path.with_name(tmp_path.name + "-state")
    options = ["--state", state, "--settle", "0", "--after", "delete", "--wait=received"]
    for wrong in (["--wait"], ["--wait=60", "--after", "delete"]):
        refused = run("watch", tmp_path, target, "--state", state, *wrong, url=managers[0].url)
        assert refused.status == 2, wrong
    watch = subprocess.Popen(
        [*COMMAND, "watch", tmp_path, target, *options],
        env=environment(managers[0].url),
        stdout=subprocess.PIPE,
    )
    try:
        assert watch.stdout.readline().startswith(b"sent ")
        with dray.LargeMessageQueue(queue).receive(WITHIN_S):
            assert file.exists(), "nobody has committed it yet"
        until(lambda: not file.exists())
    finally:
        watch.terminate()
        watch.stdout.close()
    assert watch.wait(WITHIN_S) == 0

"""What a child made by fork finds in the place of what its parent keeps to itself."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dray import forks
from dray.errors import WrongProcess
from tests.children import in_child

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded, use of fork.*:DeprecationWarning"
)


class Inheriting:
    """Notes which process it was left by."""

    def __init__(self):
        self.parents = []
        forks.tell_of_forks(self)

    def after_fork(self, parent):
        self.parents.append(parent.id)


class Closed:
    """A selector whose descriptor was given back."""

    def fileno(self):
        raise ValueError("I/O operation on closed epoll object")


def test_child_cannot_reach_a_descriptor_that_is_kept_from_it():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        forks.keep_from_children(ours)
        forks.keep_from_children(Closed())

        def what_is_there():
            with pytest.raises(OSError, match="Socket operation on non-socket"):
                ours.sendall(b"of the child")
            return Path(f"/proc/self/fd/{ours.fileno()}").readlink()

        assert in_child(what_is_there) == Path(os.devnull)
        ours.sendall(b"of the parent")
        assert theirs.recv(100) == b"of the parent"


def test_descriptor_that_is_closed_is_not_touched_in_a_child():
    ours, theirs = socket.socketpair()
    forks.keep_from_children(ours)
    number = ours.fileno()
    ours.close()
    with theirs, socket.socket(fileno=os.dup2(theirs.fileno(), number)):
        found = in_child(lambda: Path(f"/proc/self/fd/{number}").readlink())
    assert found.name.startswith("socket:")


def test_objects_are_told_of_the_process_that_they_came_from():
    inheriting = Inheriting()
    grandchild = in_child(lambda: (os.getpid(), in_child(lambda: inheriting.parents)))
    child, parents = grandchild
    assert parents == [os.getpid(), child]
    assert inheriting.parents == []


FIRST = """
import os
os.register_at_fork(after_in_child=lambda: seen.append(forks.this_process()))
from dray import forks

class Inheriting:
    parents = []
    def after_fork(self, parent):
        self.parents.append(parent.id)

seen, inheriting = [], Inheriting()
forks.tell_of_forks(inheriting)
if os.fork():
    os.wait()
else:
    print(seen[0].id == os.getpid(), seen[0] is forks.this_process(), flush=True)
    print(inheriting.parents == [os.getppid()], flush=True)
"""


@pytest.mark.slow
def test_hook_of_another_package_that_comes_first_finds_everything_in_order():
    said = subprocess.check_output([sys.executable, "-c", FIRST], text=True)
    assert said.split() == ["True", "True", "True"]


def test_what_was_made_in_the_parent_is_refused_in_a_sentence():
    here = forks.this_process()
    forks.check_process(here, "the cart", "build another one")
    with pytest.raises(WrongProcess) as refusal:
        in_child(lambda: forks.check_process(here, "the cart", "build another one"))
    assert str(refusal.value) == (
        f"the cart belongs to process {os.getpid()}, from which this process was forked; build"
        " another one"
    )
    assert refusal.value.process == os.getpid()
    assert forks.is_here(here)
    assert not in_child(lambda: forks.is_here(here))

"""Promises of `dray.folders.patterns`: what rclone would take, and nothing else."""

from __future__ import annotations

import pytest

from dray.errors import InvalidArgument
from dray.folders.patterns import Patterns

PATHS = [
    "a.jpg", "A.JPG", "a.png", "ajpg", "jpg", "b/a.jpg", "b/c/a.jpg", "b.d/x", "secret.jpg",
    "b/secret.txt", "raw/x.bin", "b/raw/x.bin", "raw.bin", "x{y}.txt", "a,b.txt", "[z].txt",
    "file1.txt", "file12.txt", "fileA.txt", "dir/f.txt", "dir/sub/deep/f.txt", "adir/f.txt",
    "dir2/f.txt", "star*.txt", "a+b(c).txt", "back\\slash",
]  # fmt: skip
ALL = set(PATHS)
MATCHED = {
    "*.jpg": {"a.jpg", "b/a.jpg", "b/c/a.jpg", "secret.jpg"},
    "/*.jpg": {"a.jpg", "secret.jpg"},
    "**.jpg": {"a.jpg", "b/a.jpg", "b/c/a.jpg", "secret.jpg"},
    "b/*.jpg": {"b/a.jpg"},
    "b/**": {"b/a.jpg", "b/c/a.jpg", "b/secret.txt", "b/raw/x.bin"},
    "/raw/**": {"raw/x.bin"},
    "raw/**": {"raw/x.bin", "b/raw/x.bin"},
    "*.{jpg,png}": {"a.jpg", "a.png", "b/a.jpg", "b/c/a.jpg", "secret.jpg"},
    "file?.txt": {"file1.txt", "fileA.txt"},
    "file[0-9].txt": {"file1.txt"},
    "file[^0-9].txt": {"fileA.txt"},
    "{{file[0-9]+}}.txt": {"file1.txt", "file12.txt"},
    "secret*": {"secret.jpg", "b/secret.txt"},
    "*": ALL,
    "**": ALL,
    "/**": ALL,
    "dir/**/f.txt": {"dir/sub/deep/f.txt"},
    "dir/*": {"dir/f.txt"},
    "*/f.txt": {"dir/f.txt", "dir/sub/deep/f.txt", "adir/f.txt", "dir2/f.txt"},
    "dir*/f.txt": {"dir/f.txt", "dir2/f.txt"},
    "x\\{y\\}.txt": {"x{y}.txt"},
    "\\[z\\].txt": {"[z].txt"},
    "star\\*.txt": {"star*.txt"},
    "a,b.txt": {"a,b.txt"},
    "a+b(c).txt": {"a+b(c).txt"},
    "jpg": {"jpg"},
    "b": set(),
    "b.d/**": {"b.d/x"},
    "": set(),
}
"""The files that rclone 1.60 lists with `--include` of each pattern, but for `raw/**`.

There rclone does not look into the folder b, although its rule matches the file in it.
"""


def taken(include=(), exclude=()):
    patterns = Patterns(include, exclude)
    return {each for each in PATHS if patterns.take(each)}


@pytest.mark.parametrize("pattern", MATCHED)
def test_an_include_takes_what_rclone_takes(pattern):
    assert taken([pattern]) == MATCHED[pattern]


@pytest.mark.parametrize("pattern", MATCHED)
def test_an_exclude_leaves_out_what_the_include_takes(pattern):
    assert taken(exclude=[pattern]) == ALL - MATCHED[pattern]


def test_an_exclude_of_a_folder_leaves_out_everything_in_it():
    assert taken(exclude=["raw/"]) == ALL - {"raw/x.bin", "b/raw/x.bin"}
    assert taken(exclude=["/raw/"]) == ALL - {"raw/x.bin"}
    assert taken(["raw/"]) == set()


def test_includes_come_before_excludes():
    assert taken(["*.jpg"], ["secret*"]) == MATCHED["*.jpg"]
    assert taken(["/b/**"], ["*.jpg"]) == MATCHED["b/**"]


@pytest.mark.parametrize("exclude", ["raw/", "/raw/**", "b/**", "*", "**", "dir/sub/"])
def test_a_folder_is_left_out_only_if_none_of_its_files_is_taken(exclude):
    patterns = Patterns(exclude=[exclude])
    for path in PATHS:
        folders = path.split("/")[:-1]
        above = ["/".join(folders[: at + 1]) for at in range(len(folders))]
        if any(map(patterns.leave_out_folder, above)):
            assert not patterns.take(path)
    assert patterns.leave_out_folder("raw") is (exclude in {"raw/", "/raw/**"})


@pytest.mark.parametrize("pattern", ["***", "{a", "a}", "[a", "a]", "a\\", "{a,{b,c}}", "{{(}}"])
def test_a_pattern_that_cannot_be_read_is_refused_by_name(pattern):
    with pytest.raises(InvalidArgument, match="cannot be read") as caught:
        Patterns([pattern])
    assert repr(pattern) in str(caught.value)

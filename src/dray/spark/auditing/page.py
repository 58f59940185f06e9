"""The page of an audit: one HTML file with its charts drawn inside, as SVG; it loads nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from operator import itemgetter
from typing import Any

from dray.model.words import counted, human_size

_WIDTH, _HEIGHT = 720, 180
_LEFT, _BOTTOM = 70, 24
_FINDINGS_SHOWN = 500
_STREAMS_SHOWN = 10
_COLOURS = ("#1f6f8b", "#d1603d", "#5b8c5a", "#8f5ea2", "#b5a642", "#6b705c")
_STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 60em; color: #222 }
h1 { font-size: 1.5em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse } td, th { padding: .2em .7em; text-align: left;
border-bottom: 1px solid #ddd } td.n { text-align: right } .bad { color: #a31515 }
.good { color: #2a6a2a } svg { display: block; margin: .5em 0 } svg text { font-size: 11px }
"""

_Row = dict[str, Any]


def page_of(hours: list[_Row], streams: list[_Row], findings: list[_Row]) -> str:
    """The whole page, from the rows of the three tables of an audit."""
    is_clean = all(row["explained"] for row in findings)
    verdict, said = ("good", "clean") if is_clean else ("bad", "not clean")
    messages, size = (sum(row[name] for row in hours) for name in ("messages", "bytes"))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Dray audit: {said}</title>
<style>{_STYLE}</style></head><body>
<h1>Audit: <span class="{verdict}" id="verdict">{said}</span></h1>
<p>{counted(messages)}, {human_size(size)}; {_counted(findings)}</p>
<h2>Bytes in each hour</h2>{_bars(hours)}
<h2>Seconds from send to landing</h2>{_lines(hours)}
<h2>Bytes by queue and hour</h2>{_table(_HOUR_COLUMNS, hours)}
<h2>The slowest streams</h2>{_table(_STREAM_COLUMNS, streams[:_STREAMS_SHOWN])}
<h2>Findings</h2>{_findings(findings)}
</body></html>
"""


def _counted(findings: list[_Row]) -> str:
    open_ = sum(not each["explained"] for each in findings)
    return f"{counted(open_, 'finding')} to look at, {len(findings) - open_} explained"


def _bars(hours: list[_Row]) -> str:
    """One bar for each hour, divided by queue."""
    queues = sorted({row["queue"] for row in hours})
    by_hour: dict[datetime, _Row] = defaultdict(dict)
    for row in hours:
        by_hour[row["hour"]][row["queue"]] = (
            by_hour[row["hour"]].get(row["queue"], 0) + row["bytes"]
        )
    top = max((sum(each.values()) for each in by_hour.values()), default=0) or 1
    step = (_WIDTH - _LEFT) / max(1, len(by_hour))
    drawn = []
    for place, hour in enumerate(sorted(by_hour)):
        y = float(_HEIGHT - _BOTTOM)
        for colour, queue in zip(_cycled(queues), queues, strict=True):
            height = (_HEIGHT - 2 * _BOTTOM) * by_hour[hour].get(queue, 0) / top
            y -= height
            drawn.append(
                f'<rect x="{_LEFT + place * step + 1:.1f}" y="{y:.1f}"'
                f' width="{max(1, step - 2):.1f}"'
                f' height="{height:.1f}" fill="{colour}"><title>{escape(queue)} {hour:%F %H:00}:'
                f" {human_size(by_hour[hour].get(queue, 0))}</title></rect>"
            )
    return _chart(
        "".join(drawn) + _legend(queues),
        name="rate",
        times=sorted(by_hour),
        top=f"{human_size(top)} an hour",
    )


def _lines(hours: list[_Row]) -> str:
    """Percentiles of latency over time, the worst queue of each hour."""
    names = ("landed_p50_s", "landed_p95_s", "landed_p99_s")
    times = sorted({row["hour"] for row in hours})
    worst = {
        name: [max((row[name] or 0) for row in hours if row["hour"] == hour) for hour in times]
        for name in names
    }
    top = max((max(each, default=0) for each in worst.values()), default=0) or 1
    step = (_WIDTH - _LEFT) / max(1, len(times))
    drawn = []
    for colour, name in zip(_COLOURS, names, strict=False):
        points = [
            (_LEFT + (place + 0.5) * step, _HEIGHT - _BOTTOM - (_HEIGHT - 2 * _BOTTOM) * each / top)
            for place, each in enumerate(worst[name])
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{line}"/>')
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return _chart(
        "".join(drawn) + _legend([each[7:10] for each in names]),
        name="latency",
        times=times,
        top=f"{top:.3g} s",
    )


def _chart(drawn: str, *, name: str, times: Sequence[datetime], top: str) -> str:
    ends = f"{times[0]:%F %H:00}" if times else "", f"{times[-1]:%F %H:00}" if times else ""
    floor = _HEIGHT - _BOTTOM
    return f"""<svg id="{name}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img">
<line x1="{_LEFT}" y1="{floor}" x2="{_WIDTH}" y2="{floor}" stroke="#999"/>
<text x="2" y="{_BOTTOM}">{escape(top)}</text><text x="2" y="{floor}">0</text>
<text x="{_LEFT}" y="{_HEIGHT - 6}">{ends[0]}</text>
<text x="{_WIDTH}" y="{_HEIGHT - 6}" text-anchor="end">{ends[1]}</text>
{drawn}</svg>"""


def _legend(names: list[str]) -> str:
    marks = (
        f'<rect x="{_LEFT + 110 * place}" y="2" width="9" height="9" fill="{colour}"/>'
        f'<text x="{_LEFT + 13 + 110 * place}" y="11">{escape(name[:14])}</text>'
        for place, (colour, name) in enumerate(zip(_cycled(names), names, strict=True))
    )
    return "".join(marks)


def _cycled(names: Sequence[str]) -> list[str]:
    return [_COLOURS[place % len(_COLOURS)] for place in range(len(names))]


_HOUR_COLUMNS = {
    "hour": lambda row: f"{row['hour']:%F %H:00}", "queue": lambda row: row["queue"],
    "messages": lambda row: row["messages"], "bytes": lambda row: human_size(row["bytes"]),
    "p50": lambda row: _seconds(row["landed_p50_s"]),
    "p95": lambda row: _seconds(row["landed_p95_s"]),
    "p99": lambda row: _seconds(row["landed_p99_s"]),
}  # fmt: skip
_STREAM_COLUMNS = {
    "from": lambda row: row["source"], "queue": lambda row: row["queue"],
    "messages": lambda row: row["messages"], "bytes": lambda row: human_size(row["bytes"]),
    "arrived p99": lambda row: _seconds(row["arrived_p99_s"]),
    "landed p99": lambda row: _seconds(row["landed_p99_s"]),
}  # fmt: skip
_FINDING_COLUMNS = {
    "kind": itemgetter("kind"), "queue": itemgetter("queue"),
    "first position": itemgetter("first_lookup_id"), "last": itemgetter("last_lookup_id"),
    "id": itemgetter("id"), "detail": itemgetter("detail"),
    "explained": lambda row: "yes" if row["explained"] else "no",
}  # fmt: skip


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f} s"


def _findings(findings: list[_Row]) -> str:
    if not findings:
        return "<p>None.</p>"
    shown = sorted(findings, key=lambda row: row["explained"])[:_FINDINGS_SHOWN]
    more = len(findings) - len(shown)
    behind = f"<p>{more} more are in the table of findings.</p>" if more else ""
    return _table(_FINDING_COLUMNS, shown) + behind


def _table(columns: dict[str, Any], rows: Iterable[_Row]) -> str:
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in columns)
    lines = ("".join(_cell(read(row)) for read in columns.values()) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    kind = ' class="n"' if isinstance(value, int) else ""
    return f"<td{kind}>{escape(str(value))}</td>"

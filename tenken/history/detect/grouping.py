"""One alert per cause: series that moved together are one finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenken.history.detect.findings import Event

WHOLE_FLEET = "fleet"
_APART = 3  # nights of change this close count as one: the estimate is uncertain by a night or two


@dataclass(frozen=True)
class Group:
    """`label` and `name` are the common property of the members, e.g. ("node", "n07"); the events are its members.

    A series that moved alone is a group of one, with the label "series".
    """

    label: str
    name: str
    change_night: int
    worse: bool
    events: tuple[Event, ...]
    of: int  # number of series with the label


def group_events(events: Sequence[Event], labels: Mapping[str, Sequence[str | None]]) -> list[Group]:
    """Groups of events, the largest first.

    `labels[kind][series]` is the component of that kind to which the series belongs (node, GPU, driver...), None if it
    has none; kinds are ordered from widest to narrowest. Events in one direction within three nights go to the label
    that explains the most of them, if at least half of its series moved (at least two); among equal labels, to the
    narrowest.
    """
    sizes = {kind: Counter(name for name in names if name is not None) for kind, names in labels.items()}
    fleet = max((len(names) for names in labels.values()), default=0)
    groups: list[Group] = []
    for worse in (True, False):
        waiting = sorted((e for e in events if e.worse == worse), key=lambda e: (e.change_night, e.series))
        while waiting:
            group = _best_group(waiting, labels, sizes, fleet)
            groups.append(group)
            taken = {id(event) for event in group.events}
            waiting = [event for event in waiting if id(event) not in taken]
    return sorted(groups, key=lambda g: (not g.worse, -len(g.events), g.change_night))


def _best_group(
    waiting: Sequence[Event],
    labels: Mapping[str, Sequence[str | None]],
    sizes: Mapping[str, Counter],
    fleet: int,
) -> Group:
    best: tuple[tuple[int, int, int], Group] | None = None
    nights = sorted({event.change_night for event in waiting})
    for night in nights:
        near = [event for event in waiting if night <= event.change_night < night + _APART]
        options = []
        if fleet:
            options.append((0, WHOLE_FLEET, WHOLE_FLEET, near, fleet))
        for depth, (kind, names) in enumerate(labels.items(), start=1):
            members: dict[str, list[Event]] = {}
            for event in near:
                name = names[event.series]
                if name is not None:
                    members.setdefault(name, []).append(event)
            options += [(depth, kind, name, own, sizes[kind][name]) for name, own in members.items()]
        for depth, kind, name, own, of in options:
            moved = {event.series for event in own}
            if len(moved) < 2 or 2 * len(moved) < of:
                continue
            key = (len(moved), depth, -night)
            if best is None or key > best[0]:
                middle = sorted(event.change_night for event in own)[len(own) // 2]
                best = (key, Group(kind, name, middle, own[0].worse, tuple(own), of))
    if best is not None:
        return _with_neighbours(best[1], waiting, labels)
    event = waiting[0]
    return Group("series", str(event.series), event.change_night, event.worse, (event,), 1)


def _with_neighbours(group: Group, waiting: Sequence[Event], labels: Mapping[str, Sequence[str | None]]) -> Group:
    """The group, extended by all series of its label that moved within three nights of it."""
    names = labels.get(group.label)
    near = [
        event
        for event in waiting
        if abs(event.change_night - group.change_night) < _APART
        and (names is None or names[event.series] == group.name)
    ]
    return Group(group.label, group.name, group.change_night, group.worse, tuple(near), group.of)

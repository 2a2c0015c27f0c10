"""Text of programs, documents and archives reaches the terminal but never controls it; pages load nothing from
outside."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import logging
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tenken import cli
from tenken.errors import ArchiveError, ResultError, TenkenError, printable
from tenken.machines.errors import Problem, SystemFileError
from tenken.model import result
from tenken.model.judgement import Finding
from tenken.reframe import logs
from tenken.report import page, policy, session
from tests.support.documents import host_document, spoiled
from tests.unit.reports import builder

#: Clear the screen, set the window title, move up and overwrite, ring, type back, hide, reverse direction, end the
#: line.
EVIL = [
    "\x1b[2J\x1b[H", "\x1b]0;owned\x07", "\x1b[1A\x1b[2KPASS", "\x07", "\x1b[6n", "\x1b[8m", "\u202ePASS", "\r",
    "\x9b2J", "\x00", "\u200b", "\ud800", "\x7f", "\x0b", "\u2028",
]  # fmt: skip


def clean(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t " for c in text)


@pytest.mark.parametrize("evil", EVIL)
def test_control_characters_are_shown_and_the_rest_stays(evil: str) -> None:
    assert clean(printable(f"a{evil}b")) and printable(f"a{evil}b")[0] == "a"
    assert printable("GPU 0 → 1: 4.8 TB/s, 点検 é\tx\ny") == "GPU 0 → 1: 4.8 TB/s, 点検 é\tx\ny"
    assert printable("\x1b[2J") == "\\x1b[2J"


@pytest.mark.parametrize("evil", EVIL)
def test_no_error_and_no_finding_holds_one(evil: str) -> None:
    for made in (
        TenkenError(evil),
        ArchiveError(f"{evil}: no"),
        SystemFileError([Problem(evil, 1, "x"), Problem("f", 2, evil)]),
    ):
        assert clean(str(made))
    assert clean(Finding("FAIL", f"n1: {evil}").message)
    assert Finding("FAIL", "one\nFAIL: two").message == "one FAIL: two"
    raw = spoiled(host_document(), lambda d: d.update(status=f"good{evil}"))
    with pytest.raises(ResultError) as raised:
        result.validate(raw, "result.json")
    assert clean(str(raised.value))


@pytest.mark.parametrize("evil", EVIL)
def test_reframes_terminal_shows_them(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    handler = logs.PlainTerminal(sys.stdout)
    handler.emit(logging.LogRecord("x", logging.INFO, "", 0, f"\x1b[31mFAIL\x1b[0m n1: {evil}", None, None))
    said = capsys.readouterr().out
    assert said.startswith("\x1b[31mFAIL\x1b[0m n1: ")
    assert clean(said.replace("\x1b[31m", "").replace("\x1b[0m", ""))


def test_a_check_file_that_does_not_load_is_noted(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(logs, "load_errors", [])
    handler = logs.PlainTerminal(sys.stdout)
    text = "skipping test file 'checks/x.py': name error: name 'y' is not defined"
    handler.emit(logging.LogRecord("x", logging.INFO, "", 0, text, None, None))
    assert logs.load_errors == []
    handler.emit(logging.LogRecord("x", logging.WARNING, "", 0, text, None, None))
    assert logs.load_errors == ["checks/x.py: name error: name 'y' is not defined"]
    assert "skipping test file" in capsys.readouterr().out


def test_the_commands_terminal_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = builder.write_session(tmp_path, [builder.record("stream", None, "FAIL", nodes=["n1\x1b[2J"])])
    assert cli.main(["report", "--archive", str(root), "--output", str(tmp_path / "p\x1b[2J.html")]) == 1
    said = capsys.readouterr()
    assert clean(said.out) and "\\x1b[2J.html" in said.out
    assert cli.main(["report", "--archive", str(tmp_path / "no\x1b[2Jthing")]) == 3
    assert "no\\x1b[2Jthing" in capsys.readouterr().err


# ---- pages


class Parts(HTMLParser):
    """A page's own statements: its policy, scripts, and everything that would be fetched or run."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.policies: list[str] = []
        self.scripts: list[str] = []
        self.outside: list[str] = []
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("http-equiv") == "Content-Security-Policy":
            assert not self.scripts, "the policy stands before what it is for"
            self.policies.append(given["content"])
        self._script = tag == "script"
        if self._script:
            self.scripts.append("")
        self.outside += [f"{tag} {name}" for name in given if name.startswith("on")]
        self.outside += [
            f"{tag} {given[n]}" for n in ("src", "href", "xlink:href") if n in given and given[n][:1] != "#"
        ]

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._script = False


def test_a_reader_that_has_gone_ends_a_command_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tenken ... | head`: the text is still in the buffer when the command returns."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert cli.main(["systems", "list"]) == 1


def test_a_page_runs_its_own_script_alone_and_loads_nothing(tmp_path: Path) -> None:
    records, cases, plan = builder.every_kind()
    records.append(builder.record("<script>alert(1)</script>", None, "FAIL", nodes=["<img src=http://x onerror=y>"]))
    root = builder.write_session(tmp_path, records, cases, plan)
    parts = Parts(page.render(session.load(root, "last"), {}))
    (said,) = parts.policies
    rules = {rule.split()[0]: rule.split()[1:] for rule in said.split(";")}
    assert rules["default-src"] == ["'none'"] and rules["base-uri"] == ["'none'"] and rules["form-action"] == ["'none'"]
    assert rules["img-src"] == ["data:"] and rules["style-src"] == ["'unsafe-inline'"]
    (script,) = parts.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules["script-src"] == [f"'sha256-{digest}'"] and "addEventListener" in script
    assert parts.outside == []
    assert not re.search(r"https?:|\*", said)


def test_a_page_without_a_script_allows_none() -> None:
    assert "script-src 'none';" in policy.meta() and policy.meta().count('"') == 4


def test_json_of_a_session_is_no_script(tmp_path: Path) -> None:
    plan = {**builder.PLAN, "load_errors": ["</script><script>alert(1)</script>"]}
    root = builder.write_session(tmp_path, [builder.record("a", None)], None, plan)
    parts = Parts(page.render(session.load(root, "last"), {}))
    assert len(parts.scripts) == 1 and "alert" not in parts.scripts[0]
    assert json.dumps(plan)


@pytest.mark.parametrize(("lacks", "says"), [("msgspec", "tenken node"), ("tenken.gone", None)])
def test_a_node_without_the_dependencies_says_what_it_lacks(lacks, says, monkeypatch, capsys) -> None:
    """An installation for the check of a node has none; a module of our own that is missing is a fault."""

    def load(*_: Any) -> Any:
        raise ModuleNotFoundError(f"No module named '{lacks}'", name=lacks)

    monkeypatch.setattr(cli, "build_parser", load)
    if says is None:
        with pytest.raises(ModuleNotFoundError):
            cli.main(["gate"])
        return
    assert cli.main(["gate"]) == 2
    said = capsys.readouterr().err
    assert lacks in said and says in said and said.count("\n") == 1


def test_an_interrupt_is_one_line(monkeypatch, capsys) -> None:
    def interrupted(_: Any) -> int:
        raise KeyboardInterrupt

    parser = argparse.ArgumentParser()
    parser.set_defaults(func=interrupted)
    monkeypatch.setattr(cli, "build_parser", lambda *_: parser)
    assert cli.main([]) == 130
    assert capsys.readouterr().err == "tenken: interrupted; jobs that it submitted go on\n"

"""`tenken matrices` with a test server: complete, interrupted, changed, missing."""

from __future__ import annotations

import gzip
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tenken import cli
from tenken.reframe import matrices

TEXT = b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.5\n2 2 2.5\n"
INDEX = """3
21-Nov-2026
HB,small,100,100,5000,1,0,0,1,1.0,1.0,power network problem,5000
HB,large,200,200,900000,1,0,0,1,1.0,1.0,power network problem,900000
HB,larger,200,200,950000,1,0,0,1,1.0,1.0,power network problem,950000
HB,skewed,200,200,900000,1,0,0,0,0.1,0.1,directed graph,900000
HB,wide,200,300,900000,1,0,0,0,0.1,0.1,directed graph,900000
HB,binary,200,200,900000,0,1,0,0,0.1,0.1,directed graph,900000
"""


def bundle(text: bytes, name: str = "small") -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as tar:
        for member, content in ((f"{name}/{name}_b.mtx", b"no"), (f"{name}/{name}.mtx", text)):
            about = tarfile.TarInfo(member)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return sink.getvalue()


class Server:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"/files/ssstats.csv": INDEX.encode(), "/MM/HB/small.tar.gz": bundle(TEXT)}
        self.cut: int | None = None
        self.ranges: list[str] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = owner.files.get(self.path)
                if body is None:
                    return self.send_error(404)
                asked = self.headers.get("Range")
                if asked:
                    owner.ranges.append(asked)
                    body = body[int(asked.removeprefix("bytes=").rstrip("-")) :]
                self.send_response(206 if asked else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body if owner.cut is None else body[: owner.cut])

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    one = Server()
    yield one
    one.http.shutdown()
    one.http.server_close()


def fetch(server: Server, folder: Path, name: str = "HB/small") -> int:
    return cli.main(["matrices", "fetch", name, "--folder", str(folder), "--from", server.url])


def test_a_matrix_is_fetched_unpacked_and_remembered(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(server, tmp_path) == 0
    assert gzip.decompress((tmp_path / "HB__small.mtx.gz").read_bytes()) == TEXT
    assert sorted(p.name for p in tmp_path.iterdir()) == ["HB__small.mtx.gz", "digests.json"]
    server.files.clear()
    assert fetch(server, tmp_path) == 0  # it exists: the server is not contacted
    assert cli.main(["matrices", "list", "--folder", str(tmp_path)]) == 0
    assert "HB/small: " in capsys.readouterr().out


def test_what_broke_off_is_gone_on_with(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.cut = 50
    assert fetch(server, tmp_path) == 1
    assert "HB/small.tar.gz: interrupted after 50" in capsys.readouterr().out
    server.cut = None
    assert fetch(server, tmp_path) == 0
    assert server.ranges == ["bytes=50-"]
    assert gzip.decompress((tmp_path / "HB__small.mtx.gz").read_bytes()) == TEXT


def test_another_digest_than_before_is_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(server, tmp_path) == 0
    (tmp_path / "HB__small.mtx.gz").unlink()
    server.files["/MM/HB/small.tar.gz"] = bundle(TEXT.replace(b"2.5", b"2.6"))
    assert fetch(server, tmp_path) == 1
    assert "but previously" in capsys.readouterr().out
    assert not (tmp_path / "HB__small.mtx.gz").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("HB/absent", None, "the server answered 404"),
        ("HB/small", b"no archive", "HB__small.tar.gz: damaged"),
        ("HB/small", bundle(TEXT, "other"), "HB__small.tar.gz: does not contain small.mtx"),
        ("small", None, "'small' is not GROUP/NAME"),
        ("HB/../../etc", None, "is not GROUP/NAME"),
    ],
    # an archive contains the second of its creation: a test must have the same name in all workers
    ids=["absent", "no archive", "another file", "no group", "outside"],
)
def test_what_cannot_be_fetched_is_said(
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    message: str,
) -> None:
    if content is not None:
        server.files["/MM/HB/small.tar.gz"] = content
    assert fetch(server, tmp_path, name) == 1
    assert message in capsys.readouterr().out
    assert not list(tmp_path.glob("*.mtx.gz"))


def test_without_network_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    away = ["--folder", str(tmp_path), "--from", "http://127.0.0.1:1"]
    assert cli.main(["matrices", "fetch", "HB/small", *away]) == 1
    assert "no network, or no such server" in capsys.readouterr().out
    assert cli.main(["matrices", "select", *away]) == 2
    assert "no network, or no such server" in capsys.readouterr().err


def test_the_rule_takes_real_square_matrices_from_every_stratum(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["matrices", "select", "--from", server.url]) == 0
    assert capsys.readouterr().out.split() == ["HB/skewed", "HB/larger"]
    file = tmp_path / "ssstats.csv"
    file.write_text(INDEX)
    assert cli.main(["matrices", "select", "--index", str(file), "--each", "2", "--least", "1"]) == 0
    assert capsys.readouterr().out.split() == ["HB/small", "HB/large", "HB/skewed", "HB/larger"]


@pytest.mark.parametrize("text", ["", "1\nx\n", "1\nx\nHB,a,b\n"])
def test_a_broken_index_is_refused(text: str) -> None:
    with pytest.raises(matrices.MatricesError, match=r"ssstats\.csv"):
        matrices.parse_index(text)

"""`tenken accept`: the acceptance report of sessions against a contract, and the verification of an existing one."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tenken import paths
from tenken.archive import packed, seal
from tenken.archive import records as archive
from tenken.archive import verify as archive_verify
from tenken.errors import ArchiveError, TenkenError
from tenken.machines import loader
from tenken.model.catalogue import load_catalogue
from tenken.model.record import Record
from tenken.report import bundle, contracts, evidence, session, signature, signed
from tenken.report.acceptance import (
    ACCEPTED,
    EXCEPTIONS,
    INCONCLUSIVE,
    REJECTED,
    Acceptance,
    Counted,
    accept,
    as_json,
)
from tenken.report.contracts import Contract, ContractError, Machine

RELEASE = version("tenken")
#: Exit status; 2 is a wrong command line or contract.
EXIT_CODES: Mapping[str, int] = {ACCEPTED: 0, EXCEPTIONS: 0, REJECTED: 1, INCONCLUSIVE: 3}


class AcceptError(TenkenError):
    """An acceptance that cannot be written or verified; one line."""


@dataclass
class Files:
    """Files of some sessions in an archive by their names in a bundle, and what cannot be read."""

    root: Path
    names: dict[str, Path] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    failed: list[Counted] = field(default_factory=list)


def register(subparsers: Any) -> None:
    """Adds the subcommand `accept` to the `tenken` command."""
    parser = subparsers.add_parser(
        "accept",
        help="compare sessions with a contract: a report to sign, with its evidence, in one verifiable file",
        description="Writes report.html (and report.pdf where a headless browser is found) and a tar with contract, "
        "report, answer, evidence and archive. Exit status: 0 ACCEPTED or ACCEPTED WITH EXCEPTIONS, 1 REJECTED, 2 "
        "usage error, invalid contract, or a session whose manifest changed since, 3 INCONCLUSIVE. With "
        "--verify: 0 intact and decision reproduced, 1 modified.",
    )
    parser.add_argument("--contract", metavar="NAME", help="name of a contract in reports/contracts/, or a file")
    parser.add_argument(
        "--sessions", nargs="+", metavar="ID", help="sessions of the archive; `last`: the most recent one of the system"
    )
    parser.add_argument(
        "--archive", type=packed.argument, metavar="DIR",
        help="archive to read, a folder or a .tar.xz of one (default: $TENKEN_ARCHIVE, else perflogs/)",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: output/acceptance/<contract>-<time>")
    parser.add_argument("--no-pdf", action="store_true", help="do not search for a browser")
    parser.add_argument("--sign", type=Path, metavar="KEY", help="sign the tar with this SSH key (ssh-keygen -Y sign)")
    about = "with --verify: it must be signed by one of these (ALLOWED SIGNERS of ssh-keygen)"
    parser.add_argument("--signers", type=Path, metavar="FILE", help=about)
    parser.add_argument("--verify", type=Path, metavar="FILE", help="verify a tar that was written earlier")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken accept`; returns its exit status."""
    if arguments.verify is not None:
        if arguments.contract or arguments.sessions:
            raise AcceptError("--verify cannot be combined with --contract or --sessions: both are in the file")
        return verify(arguments.verify, arguments.signers)
    if not arguments.contract or not arguments.sessions:
        raise AcceptError("required: --contract NAME and --sessions ID..., or --verify FILE")
    contract = contracts.load(arguments.contract, load_catalogue(), systems(), machine=known)
    root = arguments.archive or paths.archive_root()
    sessions = known_sessions(root, arguments.sessions, contract.system)
    for place, fault in archive_verify.chain(root, sessions):
        raise AcceptError(f"{root / place} {fault}: `tenken archive verify` names all such files")
    refuse_other_systems(contract, root, sessions)
    now = datetime.now(timezone.utc)
    folder = arguments.output or paths.ROOT / "output" / "acceptance" / f"{contract.name}-{now:%Y%m%dT%H%M%SZ}"
    found, tar, why = write(contract, root, sessions, folder, f"{now:%Y-%m-%d %H:%M UTC}", not arguments.no_pdf)
    print("\n".join(lines(found)))
    print(f"\nReport: {folder / 'report.html'}" + (f"\nNo PDF: {why}" if why else f"\nPDF: {folder / 'report.pdf'}"))
    print(f"All files: {tar}")
    if arguments.sign is not None:
        print(f"Signature: {signature.sign(tar, arguments.sign)}")
    return EXIT_CODES[found.statement]


def systems() -> list[str]:
    """Names of systems that a contract may be about."""
    return [*loader.names(), loader.LOCAL]


def known(name: str) -> Machine:
    """A system, without its checks."""
    return Machine(loader.load(name).expand(os.environ, strict=False))


def known_sessions(root: Path, asked: list[str], system: str) -> tuple[str, ...]:
    """Sessions by name, each once; `last` is the most recent one of the system. Raises AcceptError for one that the
    archive does not contain."""
    if not root.is_dir():
        raise AcceptError(f"no archive at {root}: name the folder of the archive with --archive")
    there = {p.name for p in (root / archive.SESSIONS).glob("*") if p.is_dir()}
    there |= {record.session for record in archive.records(root)} if not set(asked) - {"last"} <= there else set()
    names = [archive.last_session(root, system) or "last" if name == "last" else name for name in asked]
    for name in names:
        if name not in there:
            latest = ", ".join(sorted(there)[-5:]) or "none"
            which = f"session of system '{system}'" if name == "last" else f"session '{name}'"
            raise AcceptError(f"no {which} in {root}; most recent: {latest}")
    return tuple(dict.fromkeys(names))


def refuse_other_systems(contract: Contract, root: Path, sessions: tuple[str, ...]) -> None:
    """Raises AcceptError for a session that measured another system."""
    for name in sessions:
        measured = sorted({record.system for record in archive.records(root, session=name)})
        if measured and contract.system not in measured:
            raise AcceptError(
                f"session '{name}' is of system {', '.join(measured)}; "
                f"contract '{contract.name}' covers {contract.system}"
            )


# ---- the archive -----------------------------------------------------------------------------------------


def files_of(root: Path, sessions: tuple[str, ...]) -> Files:
    """All files of the given sessions: records by name, plan and run report; also damaged ones, since they are
    evidence.
    """
    files = Files(root)
    chosen = {archive.safe_name(s) for s in sessions}
    for path in archive.all_files(root):
        if seal.session_of(path.name) in chosen:
            files.names[f"{bundle.ARCHIVE}/{path.relative_to(root).as_posix()}"] = path
    for name in sessions:
        folder = archive.session_folder(root, name)
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            if path.is_file() and not path.name.startswith("."):
                files.names[f"{bundle.ARCHIVE}/{path.relative_to(root).as_posix()}"] = path
    return files


def records_of(files: Files) -> Iterator[tuple[str, Record]]:
    """Records with their names; files that are not records are appended to `files.damaged`."""
    for name, path in sorted(files.names.items()):
        if f"{bundle.ARCHIVE}/{archive.SESSIONS}/" in name or path.suffix != ".json":
            continue
        try:
            record = archive.read(path)
            if why := archive.misplaced(record, path.parts[:-1], path.name):
                raise ArchiveError(f"{path}: cannot be believed: {why}")
            yield name, record
        except ArchiveError as error:
            files.damaged.append(f"{name}: {str(error).removeprefix(f'{path}: ')}")


def decide(contract: Contract, files: Files, sessions: tuple[str, ...], sealed: bool = True) -> Acceptance:
    """The decision, including cases without a record and damaged files. `sealed`: files that differ from their manifest
    count as damaged, and unsealed records are listed.
    """
    kept = list(records_of(files))
    lost, unread = session.without_records(files.root, sessions, [record for _, record in kept])
    damaged, unsealed = [*files.damaged, *unread], None
    if sealed:
        seals = archive_verify.check(files.root, sessions)
        damaged += [f"{bundle.ARCHIVE}/{text}" for text in [*seals.faults, *seals.notes]]
        unsealed = [f"{bundle.ARCHIVE}/{name}" for name in seals.unsealed]
    return accept(contract, kept, load_catalogue(), sessions, damaged, lost, unsealed)


# ---- writing ---------------------------------------------------------------------------------------------


def write(
    contract: Contract, root: Path, sessions: tuple[str, ...], folder: Path, written: str, with_pdf: bool
) -> tuple[Acceptance, Path, str | None]:
    """Write report, answer, evidence and tar into `folder`. Returns the answer, the path of the tar, and the reason if
    there is no PDF.
    """
    files = files_of(root, sessions)
    found = decide(contract, files, sessions)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tar = folder / f"{contract.name}{bundle.SUFFIX}"
        tar.with_name(tar.name + signature.SUFFIX).unlink(missing_ok=True)  # from an earlier report
        digests = {name: bundle.sha256(path) for name, path in files.names.items()}
        text = contract.text.encode()
        hosts = {n for r in found.requirements for m in r.parts for n in m.part.node.split(", ")}
        hosts |= {p.node for p in found.parts}
        handed, named = evidence.bundle(found, lambda name: archive.read(files.names[name]), hosts)
        html = signed.render(
            found, load_catalogue(), bundle.archive_digest(digests), bundle.sha256(text), named, written
        )
        page, answer = folder / "report.html", folder / bundle.ANSWER
        archive.write_file(page, html)
        archive.write_file(answer, answer_text(found))
        why: str | None = "not requested"
        if with_pdf:
            (folder / "report.pdf").unlink(missing_ok=True)
            why = signed.pdf(page, folder / "report.pdf")
        for name, content in handed:
            archive.write_file(folder / name, content)
        written_now = {folder / name for name, _ in handed}
        for old in (folder / "evidence").glob("*"):  # of an earlier report
            if old not in written_now:
                old.unlink()
        members = [bundle.Member(name, path) for name, path in files.names.items()]
        members += [bundle.Member(name, content.encode()) for name, content in handed]
        members += [
            bundle.Member(bundle.CONTRACT, text), bundle.Member("report.html", page),
            bundle.Member(bundle.ANSWER, answer),
        ]  # fmt: skip
        if why is None:
            members.append(bundle.Member("report.pdf", folder / "report.pdf"))
        bundle.write(tar, members)
    except OSError as error:
        raise AcceptError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return found, tar, why


def answer_text(found: Acceptance) -> str:
    """`acceptance.json`: the decision, and the release that made it."""
    return json.dumps({"release": RELEASE, **as_json(found)}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def lines(found: Acceptance) -> Iterator[str]:
    """Print the answer."""
    from tabulate import tabulate

    rows = []
    for r in found.requirements:
        worst = r.worst
        rows.append(
            [
                r.result, r.clause.id, f"{r.clause.program}.{r.clause.metric}", r.check or "–",
                f"{r.clause.sign} {r.clause.bound:.5g} {r.clause.unit}", f"{worst.median:.5g}" if worst else "–",
                worst.part.name if worst else "–", r.why,
            ]
        )  # fmt: skip
    heads = ["Result", "Clause", "Metric", "Check", "Bound", "Worst", "On", "Why"]
    yield tabulate(rows, headers=heads, tablefmt="simple", disable_numparse=True)
    yield f"\n{found.statement}: {found.contract.name}, {found.records} records of {len(found.sessions)} sessions"
    yield from (f"  {reason}" for reason in found.reasons[:20])
    if len(found.reasons) > 20:
        yield f"  … and {len(found.reasons) - 20} more in acceptance.json"


# ---- checking --------------------------------------------------------------------------------------------


def verify(file: Path, signers: Path | None = None) -> int:
    """Verify a tar against its signature and manifest, and the report against the archive; repeat the decision. 0:
    intact; 1: changed. `signers`: it must be signed by one of these.
    """
    members = bundle.read(file)
    faults = list(bundle.faults(file, members))
    who = ""
    if signers is not None or file.with_name(file.name + signature.SUFFIX).exists():
        try:
            who = signature.signer(file, signers)
        except signature.SignatureError as error:
            faults.insert(0, str(error))
    if not faults:
        faults = list(_against_itself(members))
    for fault in faults[:50]:
        print(f"CHANGED: {fault}")
    if len(faults) > 50:
        print(f"CHANGED: … and {len(faults) - 50} more")
    if faults:
        return 1
    statement = json.loads(members[bundle.ANSWER])["statement"]
    digest = bundle.archive_digest({name: bundle.sha256(content) for name, content in members.items()})
    print(f"{file}: intact, and the decision is reproduced: {statement}")
    print(f"Signed by {who}" if who else "Not signed")
    print(f"Archive SHA-256 {digest}: compare it with the signed one")
    if "unsealed" not in json.loads(members[bundle.ANSWER]):
        print("It was written before seals existed; unsealed records did not count")
    return 0


def _against_itself(members: Mapping[str, bytes]) -> Iterator[str]:
    """Whether report and answer follow from the archive and the contract in the same file."""
    for name in (bundle.CONTRACT, bundle.ANSWER, "report.html"):
        if name not in members:
            yield f"{name} is missing"
            return
    digest = bundle.archive_digest({name: bundle.sha256(content) for name, content in members.items()})
    if digest not in members["report.html"].decode("utf-8", "replace"):
        yield f"the archive is not the one of report.html: its SHA-256 is {digest}"
    try:
        said = json.loads(members[bundle.ANSWER])
        sessions, name = tuple(map(str, said["sessions"])), str(said["contract"])
    except (ValueError, KeyError, TypeError) as error:
        yield f"{bundle.ANSWER} is not a decision written by `tenken accept`: {error}"
        return
    with tempfile.TemporaryDirectory(prefix="tenken-verify-") as folder:
        root = Path(folder)
        for member, content in members.items():
            if member.startswith(f"{bundle.ARCHIVE}/") or member == bundle.CONTRACT:
                (root / member).parent.mkdir(parents=True, exist_ok=True)
                (root / member).write_bytes(content)
        agreed = root / f"{archive.safe_name(name)}.yaml"
        (root / bundle.CONTRACT).rename(agreed)
        try:
            read = contracts.load(str(agreed), load_catalogue(), [*systems(), str(said.get("system"))])
            contract = replace(read, name=name)
            # a fault of this installation and not of the file; reported as such, not as a modification
            files = files_of(root / bundle.ARCHIVE, sessions)
            # a report from before there were seals: unsealed records did not count
            again = decide(contract, files, sessions, sealed="unsealed" in said)
        except ContractError as error:
            yield f"{bundle.CONTRACT} cannot be read by this version: {error}"
            return
        text = answer_text(again)
    if text != members[bundle.ANSWER].decode("utf-8", "replace"):
        yield from _differences(_decided(said), _decided(json.loads(text)), "")
    if json.loads(text)["statement"] not in members["report.html"].decode("utf-8", "replace"):
        yield f"report.html does not contain {json.loads(text)['statement']}"


#: Keys of an answer that decide nothing: the release that wrote it, and texts that releases may word differently.
_EXPLAIN = ("release", "why", "stability_why")
_SENTENCES = ("reasons", "damaged", "missing", "unlisted")


def _decided(answer: Any) -> Any:
    """An answer without its wording: results, values and counts, and the length of each list of sentences."""
    if isinstance(answer, list):
        return [_decided(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    found = {key: _decided(value) for key, value in answer.items() if key not in _EXPLAIN}
    found.update({key: len(found[key]) for key in _SENTENCES if isinstance(found.get(key), list)})
    if isinstance(found.get("conditions"), dict):  # its keys are titles
        found["conditions"] = sorted(found["conditions"].values(), key=repr)
    return found


def _differences(said: Any, anew: Any, where: str) -> Iterator[str]:
    """The places in which two answers differ."""
    if isinstance(said, dict) and isinstance(anew, dict):
        for key in sorted({*said, *anew}):
            yield from _differences(said.get(key), anew.get(key), f"{where}/{key}")
    elif isinstance(said, list) and isinstance(anew, list) and len(said) == len(anew):
        for index, (a, b) in enumerate(zip(said, anew, strict=True)):
            yield from _differences(a, b, f"{where}/{index}")
    elif said != anew:
        yield f"{bundle.ANSWER}{where} is {str(said)[:80]!r}; archive and contract yield {str(anew)[:80]!r}"

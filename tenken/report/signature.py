"""Signatures of an acceptance by `ssh-keygen -Y`: with an existing key, and nothing to install."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tenken.errors import TenkenError

#: Namespace of the signature; a signature for another purpose does not count.
PURPOSE = "tenken-accept"
SUFFIX = ".sig"
#: Seconds after which a line states that ssh-keygen waits, and seconds that it has from then on.
SAID_S, GIVEN_UP_S = 5.0, 300.0


class SignatureError(TenkenError):
    """A signature that cannot be made or examined: one line."""


def sign(file: Path, key: Path) -> Path:
    """Signs a file; the signature is written next to it. `key`: a private key, or the public key of one in an agent.
    Asks for a passphrase at the terminal. Raises SignatureError.
    """
    target = file.with_name(file.name + SUFFIX)
    done = _keygen(["sign", "-f", str(key), "-n", PURPOSE, str(file)], None)
    if done.returncode or not target.is_file():
        raise SignatureError(f"{file.name} was not signed with {key}: {_last(done)}")
    return target


def signer(file: Path, signers: Path | None = None) -> str:
    """Who signed a file: the name in `signers` (`man ssh-keygen`, ALLOWED SIGNERS), or else the key alone. Raises
    SignatureError, also if the signature is for another file or by none of `signers`.
    """
    signature = file.with_name(file.name + SUFFIX)
    if not signature.is_file():
        raise SignatureError(f"{signature.name} is missing")
    options, who = ["-n", PURPOSE, "-s", str(signature)], ""
    if signers is not None:
        found = _keygen(["find-principals", "-f", str(signers), "-s", str(signature)], None)
        who = found.stdout.partition("\n")[0].strip()
        if found.returncode or not who:
            raise SignatureError(f"{signature.name} is by no key in {signers}: {_last(found)}")
        options += ["-f", str(signers), "-I", who]
    done = _keygen(["verify" if signers is not None else "check-novalidate", *options], file)
    if done.returncode:
        raise SignatureError(f"{signature.name} is not a signature of {file.name}: {_last(done)}")
    key = re.search(r"with (.+)$", done.stdout.strip())
    return f"{who or 'unknown'} with {key[1] if key else 'unknown key'}"


def _keygen(arguments: list[str], content: Path | None) -> subprocess.CompletedProcess[str]:
    try:
        with (content or Path("/dev/null")).open("rb") as stream:
            process = subprocess.Popen(
                ["ssh-keygen", "-Y", *arguments],
                stdin=stream, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            try:
                said = process.communicate(timeout=SAID_S)
            except subprocess.TimeoutExpired:
                print(f"ssh-keygen waits for a passphrase, a PIN or a touch; given up after {GIVEN_UP_S:g} s",
                      file=sys.stderr, flush=True)  # fmt: skip
                said = process.communicate(timeout=GIVEN_UP_S)
            return subprocess.CompletedProcess(process.args, process.returncode, *said)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise SignatureError(f"ssh-keygen did not end within {SAID_S + GIVEN_UP_S:g} s") from None
    except OSError as error:
        raise SignatureError(f"ssh-keygen cannot be run: {error.strerror}") from None


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1].strip() if lines else f"ssh-keygen ended with {done.returncode}"

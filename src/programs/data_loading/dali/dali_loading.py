"""Training data read by NVIDIA DALI: the samples of data_loading as npy files, reshuffled in each epoch.

    python3 dali_loading.py --kind speech --reader cpu

Needs nvidia.dali and numpy, and with --train PyTorch, and nothing of the suite: it is copied to the node. Exit status 3
where one of them is missing.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

#: Bytes of 80 log-mel bands in single precision, frames of an utterance: mean and minimum, as in data_loading.
BANDS, MEAN_FRAMES, MIN_FRAMES = 80, 1230, 790
FRAME_BYTES = BANDS * 4
DEEPCAM_BYTES = 768 * 1152 * 16 * 4
BATCHES_OF = {"speech": 32, "deepcam": 2}


def words_of(kind: str, sample: int) -> int:
    """Number of 32-bit words of a sample."""
    if kind == "deepcam":
        return DEEPCAM_BYTES // 4
    lengths = 2 * (MEAN_FRAMES - MIN_FRAMES) + 1
    return (MIN_FRAMES + sample * 389 % lengths) * FRAME_BYTES // 4


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=sorted(BATCHES_OF), default="speech")
    parser.add_argument("--reader", choices=("cpu", "gpu"), default="cpu", help="gpu: by cuFile into GPU memory")
    parser.add_argument("--batches", type=int, default=8, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=5, help="timed ones")
    parser.add_argument("--prefetch", type=int, default=2, help="batches that the pipeline reads ahead")
    parser.add_argument("--threads", type=int, default=0, help="threads of the pipeline; 0: all CPUs, at most 8")
    parser.add_argument("--step-ms", type=float, default=20, help="time that the consumer keeps each batch")
    parser.add_argument("--train", action="store_true", help="the consumer trains a speech encoder by PyTorch instead")
    parser.add_argument("--path", type=Path, default=Path("."), help="where the samples are written")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--inject-fault", choices=("none", "element", "sample-twice"), default="none")
    given = parser.parse_args()
    for name, least, most in (("batches", 1, 1000), ("epochs", 1, 1000), ("prefetch", 1, 64), ("threads", 0, 256)):
        if not least <= getattr(given, name) <= most:
            parser.error(f"--{name} {getattr(given, name)} is invalid; allowed: {least} to {most}")
    if given.train and given.kind != "speech":
        parser.error("--train is invalid here; allowed: with --kind speech")
    missing = "nvidia.dali"
    try:
        import numpy
        from nvidia import dali

        missing = "torch"
        trainer = Encoder(given.reader) if given.train else None
    except ImportError as error:
        print(f"TENKEN-FOREIGN-MISSING {missing}: {error}")
        return 3
    folder = Path(tempfile.mkdtemp(prefix="dali_loading.", dir=given.path))
    try:
        return load(given, folder, numpy, dali, trainer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Encoder:
    """Training like that of RNN-T's encoder: recurrent layers on the frames of a batch, which learn to predict the next
    frame. The utterances are cut to the shortest one."""

    WIDTH, LAYERS, RATE = 1024, 2, 1e-3
    #: On a host, which shows that it works, not how fast.
    NARROW, FRAMES = 32, 64

    def __init__(self, reader: str) -> None:
        import torch

        self.torch = torch
        torch.manual_seed(1)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if reader == "gpu" and self.device.type == "cpu":
            raise ImportError(f"PyTorch {torch.__version__} finds no GPU")
        width = self.WIDTH if self.device.type == "cuda" else self.NARROW
        self.layers = torch.nn.LSTM(BANDS, width, self.LAYERS, batch_first=True).to(self.device)
        self.out = torch.nn.Linear(width, BANDS).to(self.device)
        self.optimiser = torch.optim.AdamW([*self.layers.parameters(), *self.out.parameters()], lr=self.RATE)
        self.losses: list[float] = []

    def __str__(self) -> str:
        return f"training by PyTorch {self.torch.__version__} on {self.device.type}"

    def step(self, data, batch: int, numpy) -> None:
        """Returns when the step is complete."""
        words = [self._words(data[i], numpy) for i in range(batch)]
        length = min(len(one) for one in words) // BANDS
        length = length if self.device.type == "cuda" else min(length, self.FRAMES)
        cut = self.torch.stack([one[: length * BANDS] for one in words]).view(batch, length, BANDS)
        frames = (cut.to(self.device) & 0x7FFFFF).float() / 2**23  # in [0, 1)
        predicted = self.out(self.layers(frames[:, :-1])[0])
        loss = self.torch.nn.functional.mse_loss(predicted, frames[:, 1:])
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.losses.append(loss.item())

    def _words(self, sample, numpy):
        if self.device.type == "cuda" and not hasattr(sample, "__array__"):
            return self.torch.from_dlpack(sample).view(self.torch.int32)
        return self.torch.from_numpy(numpy.asarray(sample).view(numpy.int32))

    def result(self) -> str:
        first, last = self.losses[0], self.losses[-1]
        trend = "falling" if math.isfinite(last) and last < first else "not falling"
        return f"trained {len(self.losses)} steps: loss {first:.6g} to {last:.6g}, {trend}"


def load(given, folder: Path, numpy, dali, trainer: Encoder | None) -> int:
    batch = BATCHES_OF[given.kind]
    samples = batch * given.batches
    # contents of sample i: word k is base[k] + i modulo 2^32, so that no two samples have a word in common at the same
    # place
    base = numpy.arange(max(words_of(given.kind, i) for i in range(samples)), dtype=numpy.uint32)
    base *= numpy.uint32(2654435761)
    total, written = {}, 0
    for i in range(samples):
        words = base[: words_of(given.kind, i)] + numpy.uint32(i)
        total[i], written = int(words.sum(dtype=numpy.uint64)), written + words.nbytes
        if given.inject_fault == "element" and i == 0:
            words[len(words) // 2] ^= 1
        numpy.save(folder / f"{i:06d}.npy", words)
    os.sync()
    names = [f"{i:06d}.npy" for i in range(samples)]
    if given.inject_fault == "sample-twice":
        names[0] = names[1]
    listed = folder / "files.txt"
    listed.write_text("".join(f"{name}\n" for name in names))

    def graph():
        data = dali.fn.readers.numpy(
            device=given.reader, file_root=str(folder), file_list=str(listed), shuffle_after_epoch=True, name="reader",
        )  # fmt: skip
        # part of the pipeline, as preprocessing is: each word is read by the processor that gets the sample
        return data, dali.fn.reductions.sum(data, dtype=dali.types.UINT64)

    threads = given.threads or min(8, len(os.sched_getaffinity(0)))
    pipeline = dali.Pipeline(
        batch_size=batch, num_threads=threads, device_id=given.gpu if given.reader == "gpu" else None,
        prefetch_queue_depth=given.prefetch, seed=1,
    )  # fmt: skip
    with pipeline:
        pipeline.set_outputs(*graph())
    pipeline.build()
    how = "CPU reader" if given.reader == "cpu" else "GPU reader, cuFile"
    print(f"DALI {dali.__version__}, {how}, {threads} threads, {given.kind}, batches of {batch}", flush=True)
    if trainer is not None:
        print(trainer, flush=True)

    wrong = misread = 0
    orders = []
    for epoch in range(given.epochs + 1):
        seen: list[int] = []
        waited = 0.0
        begin = idle_since = time.perf_counter()
        for _ in range(given.batches):
            data, sums = pipeline.run()
            if given.reader == "gpu":
                sums = sums.as_cpu()
            now = time.perf_counter()
            waited += now - idle_since
            ids = [int(Path(data[i].source_info()).stem) for i in range(batch)]
            seen += ids
            wrong += sum(int(numpy.asarray(sums[i])) != total[ids[i]] for i in range(batch))
            if epoch == 0:  # not timed: every word against its expected value
                there = data.as_cpu() if given.reader == "gpu" else data
                for i, sample in enumerate(ids):
                    expected = base[: words_of(given.kind, sample)] + numpy.uint32(sample)
                    wrong += not numpy.array_equal(numpy.asarray(there[i]), expected)
            elif trainer is None:
                time.sleep(max(0.0, given.step_ms / 1e3 - (time.perf_counter() - now)))
            if trainer is not None:
                trainer.step(data, batch, numpy)
            idle_since = time.perf_counter()
        seconds = idle_since - begin
        misread += sum(seen.count(i) != 1 for i in range(samples))
        orders.append(seen)
        if epoch > 0:
            print(f"samples {samples / seconds:.6g} samples/s")
            print(f"rate {written / seconds / 1e9:.6g} GB/s")
            print(f"waits {100 * waited / seconds:.6g} %", flush=True)
    # an order may repeat by chance if an epoch has few samples, but not every time
    shuffled = samples < 4 or any(order != orders[0] for order in orders[1:])
    print(
        f"verified {samples} samples in {given.epochs + 1} epochs: {wrong} wrong, {misread} not read once, "
        f"{'shuffled anew' if shuffled else 'always in one order'}"
    )
    if trainer is not None:
        print(trainer.result())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The peak of a product: that of the units, or of a flat product that of the memory."""

#: Bytes of an element of the operands by the beginning of the precision's name, and of the result if it differs.
OPERAND = {
    "fp64": 8,
    "fp32": 4,
    "tf32": 4,
    "fp16": 2,
    "bf16": 2,
    "int8": 1,
    "fp8": 1,
    "mxfp8": 1,
    "nvfp4": 0.5,
    "mxfp4": 0.5,
}
RESULT = {"fp64": 8, "fp32": 4, "tf32": 4, "int8": 4}


def limit_gemm(run, one):
    """TFLOP/s: multiprocessors x highest clock x operations per cycle (common.yaml) or, if lower, the rate at which
    memory bandwidth delivers operands and result, which a product beyond 4 x the L2 reads and writes once."""
    device = run.result.device(one.subject.first)
    precision = str(one.at.get("precision"))
    operations = run.program.tables["operations_per_cycle"].get(device.chip, {}) if device else {}
    rate = operations.get(precision)
    if rate is None or not device.sm_clock_max_mhz or not device.multiprocessors:
        return
    units = device.multiprocessors * device.sm_clock_max_mhz * 1e-6 * rate
    moved, done = _traffic(one.at, precision)
    if moved > 4 * (device.l2_bytes or 0) and device.memory_clock_mhz and device.memory_bus_bits:
        units = min(units, done / moved * 2e-6 * device.memory_clock_mhz * device.memory_bus_bits / 8)
    yield units


def _traffic(at, precision):
    """Bytes of operands, read once, and of the result, written once, and read once if it is accumulated; operations."""
    m, n, k, batch = (at.get(side, 1) for side in ("m", "n", "k", "batch"))
    kind, adds = precision.split("_")[0], precision.endswith("_c32")
    operand, result = OPERAND.get(kind, 8), 4 if adds else RESULT.get(kind, 2)
    return batch * ((m * k + k * n) * operand + m * n * (2 if adds else 1) * result), 2.0 * batch * m * n * k

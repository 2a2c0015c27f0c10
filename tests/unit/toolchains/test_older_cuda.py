"""What older CUDA toolkits lack, as listed in docs/toolchains.md: the sources use it only behind a guard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenken.paths import ROOT

LISTED = re.findall(
    r"^\| `(\w+)` \| (\d+)\.(\d+) \|",
    (ROOT / "docs" / "toolchains.md").read_text().split("## CUDA before 11.8")[1],
    re.M,
)
TEXTS = {
    file.relative_to(ROOT / "src"): file.read_text()
    for file in sorted((ROOT / "src").rglob("*"))
    if file.suffix in (".h", ".cuh", ".cu", ".cpp")
}
#: What CUDA 9.2 has, by prefix, and the sources use without a guard; what is added here was looked up in its manuals.
IN_9_2 = {
    "CUBLAS_": """
        DEFAULT_MATH DIAG_NON_UNIT DIAG_UNIT FILL_MODE_LOWER OP_N OP_T SIDE_LEFT SIDE_RIGHT
    """,
    "CUSPARSE_": """
        INDEX_BASE_ZERO MATRIX_TYPE_GENERAL OPERATION_NON_TRANSPOSE STATUS_SUCCESS
    """,
    "cublas": """
        Create Destroy Dgemm DgemmStridedBatched Dgemv Dtrsm Dtrsv GetProperty Handle_t SetMathMode SetStream
    """,
    "cuda": """
        CpuDeviceId DevAttrCanUseHostPointerForRegisteredMem DevAttrClockRate DevAttrComputeCapabilityMajor
        DevAttrConcurrentManagedAccess DevAttrGlobalMemoryBusWidth DevAttrManagedMemory
        DevAttrMaxSharedMemoryPerBlockOptin DevAttrMaxSharedMemoryPerMultiprocessor DevAttrMemoryClockRate
        DevAttrMultiProcessorCount DevAttrPageableMemoryAccess DevAttrPageableMemoryAccessUsesHostPageTables
        DeviceAttr DeviceCanAccessPeer DeviceDisablePeerAccess DeviceEnablePeerAccess DeviceGetAttribute
        DeviceGetByPCIBusId DeviceGetPCIBusId DeviceGetStreamPriorityRange DeviceProp DeviceSynchronize
        DriverGetVersion ErrorInsufficientDriver ErrorInvalidDeviceFunction ErrorInvalidKernelImage
        ErrorMemoryAllocation ErrorNoDevice ErrorNoKernelImageForDevice ErrorPeerAccessAlreadyEnabled Error_t
        EventCreate EventCreateWithFlags EventDestroy EventDisableTiming EventElapsedTime EventRecord
        EventSynchronize Event_t Free FreeHost FuncAttributeMaxDynamicSharedMemorySize
        FuncAttributePreferredSharedMemoryCarveout FuncAttributes FuncGetAttributes FuncSetAttribute GetDevice
        GetDeviceCount GetDeviceProperties GetErrorName GetErrorString GetLastError HostAlloc HostAllocMapped
        HostAllocWriteCombined HostGetDevicePointer HostRegister HostRegisterDefault HostUnregister InvalidDeviceId
        IpcCloseMemHandle IpcGetMemHandle IpcMemHandle_t IpcMemLazyEnablePeerAccess IpcOpenMemHandle Malloc
        MallocHost MallocManaged MemAdvise MemAdviseSetAccessedBy MemAdviseSetPreferredLocation MemAttachGlobal
        MemGetInfo MemPrefetchAsync MemRangeAttributeLastPrefetchLocation MemRangeGetAttribute Memcpy Memcpy2DAsync
        MemcpyAsync MemcpyDefault MemcpyDeviceToDevice MemcpyDeviceToHost MemcpyHostToDevice MemcpyPeer
        MemcpyPeerAsync Memset MemsetAsync RuntimeGetVersion SetDevice SharedmemCarveoutDefault
        StreamCreateWithPriority StreamDestroy StreamNonBlocking StreamSynchronize StreamWaitEvent Stream_t Success
    """,
    "cusolverDn": """
        Create Destroy Dgetrf Dgetrf_bufferSize Dgetrs Handle_t SetStream
    """,
    "cusparse": """
        Create CreateMatDescr Dcsrmv Destroy DestroyMatDescr GetVersion Handle_t MatDescr_t Scsrmv SetMatIndexBase
        SetMatType SetStream Status_t
    """,
}
_NAME = re.compile(r"\b(?:cuda[A-Z]|cublas[A-Z]|cusolverDn|cusparse[A-Z]|CU(?:BLAS|SPARSE|SOLVER)_|CUDA_R_)\w+")
_DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")


def macros() -> dict[str, int]:
    """Macros that are 1 from a version of CUDA on; cuFile's is defined if CMake found the header."""
    found = [
        (name, int(version))
        for text in TEXTS.values()
        for version, name in re.findall(r"#if CUDART_VERSION >= (\d+)\n#define (\w+) 1\n#else", text)
    ]
    return {**dict(found), "FILE_IO_HAVE_CUFILE_H": 11040}


def least(condition: str, known: dict[str, int], holds: bool) -> int:
    """The version of CUDA from which a condition may hold, or from which only it does not."""
    if not holds:
        below = re.search(r"CUDART_VERSION < (\d+)", condition)
        library = re.search(r"CUSPARSE_VERSION < (\d+)", condition)  # 11400 is that of CUDA 11.4
        return (
            int(below[1]) if below else int(library[1]) // 1000 * 1000 + int(library[1]) % 1000 // 10 if library else 0
        )
    above = re.search(r"CUDART_VERSION >= (\d+)", condition)
    return int(above[1]) if above else max((at for name, at in known.items() if name in condition), default=0)


def uses(text: str, name: str, known: dict[str, int]) -> Iterator[int]:
    """For each line that uses a name: the version of CUDA that its conditions require."""
    required: list[tuple[list[str], int]] = []
    for line in text.splitlines():
        code = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line.split("//")[0])
        if directive := _DIRECTIVE.match(code):
            word, condition = directive.groups()
            if word.startswith("if"):
                required.append(([condition], least(condition, known, word != "ifndef")))
            elif word == "endif":
                required.pop()
            else:
                before, _ = required.pop()
                not_those = max(least(one, known, False) for one in before)
                own = least(condition, known, True) if word == "elif" else not_those
                required.append(([*before, condition], max(own, not_those)))
        elif re.search(rf"\b{name}\b", code):
            yield max((at for _, at in required), default=0)


def by_cmake(folder: Path) -> int:
    """The version below which CMake leaves out the CUDA sources of a folder."""
    file = ROOT / "src" / folder / "CMakeLists.txt"
    found = (
        re.search(r"CUDAToolkit_VERSION VERSION_GREATER_EQUAL (\d+)\.(\d+)\)", file.read_text())
        if file.is_file()
        else None
    )
    return int(found[1]) * 1000 + int(found[2]) * 10 if found else 0


@pytest.mark.parametrize(("name", "major", "minor"), LISTED)
def test_what_a_toolkit_lacks_is_used_and_nowhere_without_a_guard(name: str, major: str, minor: str) -> None:
    since, known = int(major) * 1000 + int(minor) * 10, macros()
    found = [(file, at) for file, text in TEXTS.items() for at in uses(text, name, known)]
    assert found, f"{name}: no source uses it"
    assert not [str(file) for file, at in found if max(at, by_cmake(file.parent)) < since]


def test_what_has_no_guard_is_in_cuda_9_2() -> None:
    known = macros()
    old = {prefix + name for prefix, names in IN_9_2.items() for name in names.split()}
    used = {
        name
        for file, text in TEXTS.items()
        for name in set(_NAME.findall(text))
        if any(max(at, by_cmake(file.parent)) < 9020 for at in uses(text, name, known))
    }
    assert not used - old, "guard it, and list it in docs/toolchains.md"
    assert not old - used, "no longer used"


def test_the_list_is_read_and_a_use_without_a_guard_is_found() -> None:
    assert len(LISTED) == 13 and {"cublasLtMatmul", "cusolverDnXgetrf"} <= {name for name, *_ in LISTED}
    newer = "#if CUDART_VERSION >= 11010\nf();\n#else\nf();\n#endif\n"
    older = "#if CUDART_VERSION < 11080\nf();\n#else\nf();\n#endif\n"
    assert list(uses(f"{newer}{older}// f()\n", "f", {})) == [11010, 0, 0, 11080]

#include "lib/file_io/cuda/cufile.h"

#include <cerrno>
#include <cstring>

#ifdef FILE_IO_HAVE_CUFILE_H
#include <cufile.h>

#include "lib/base/dynlib.h"
#endif

namespace file_io {

#ifdef FILE_IO_HAVE_CUFILE_H

struct CuFile::Functions {
    CUfileError_t (*driver_open)() = nullptr;
    CUfileError_t (*driver_close)() = nullptr;
    CUfileError_t (*properties)(CUfileDrvProps_t*) = nullptr;
    CUfileError_t (*version)(int*) = nullptr;
    CUfileError_t (*add)(CUfileHandle_t*, CUfileDescr_t*) = nullptr;
    void (*remove)(CUfileHandle_t) = nullptr;
    CUfileError_t (*add_buffer)(const void*, size_t, int) = nullptr;
    CUfileError_t (*remove_buffer)(const void*) = nullptr;
    ssize_t (*read)(CUfileHandle_t, void*, size_t, off_t, off_t) = nullptr;
    ssize_t (*write)(CUfileHandle_t, const void*, size_t, off_t, off_t) = nullptr;
    CUfileError_t (*write_async)(CUfileHandle_t, void*, size_t*, off_t*, off_t*, ssize_t*,
                                 CUstream) = nullptr;
};

namespace {

std::string words(CUfileError_t error) {
    return std::string(cufileop_status_error(error.err)) + " (" +
           std::to_string(static_cast<int>(error.err)) + ")";
}

/// The reason of a transfer that returned a negative number or too few bytes.
std::string reason(ssize_t result) {
    if (result == -1) return std::strerror(errno);
    const CUfileOpError code = static_cast<CUfileOpError>(-result);
    return std::string(cufileop_status_error(code)) + " (" + std::to_string(-result) + ")";
}

}  // namespace

std::shared_ptr<const CuFile> CuFile::open(std::string& why_not) {
    using tenken::DynamicLibrary;
    std::string error;
    const DynamicLibrary library =
        DynamicLibrary::open_first(DynamicLibrary::names("TENKEN_CUFILE", {"libcufile.so.0"}), error);
    if (!library) {
        why_not = "cuFile cannot be loaded: " + error;
        return nullptr;
    }
    std::shared_ptr<CuFile> found(new CuFile);
    found->call_.reset(new Functions);
    Functions& f = *found->call_;
    const bool complete = library.load(f.driver_open, "cuFileDriverOpen") &&
                          library.load(f.properties, "cuFileDriverGetProperties") &&
                          library.load(f.add, "cuFileHandleRegister") &&
                          library.load(f.remove, "cuFileHandleDeregister") &&
                          library.load(f.add_buffer, "cuFileBufRegister") &&
                          library.load(f.remove_buffer, "cuFileBufDeregister") &&
                          library.load(f.read, "cuFileRead") && library.load(f.write, "cuFileWrite");
    if (!complete) {
        why_not = library.name() + " is not cuFile:  a function is missing";
        return nullptr;
    }
    // Renamed once: all later libraries have the second name.
    library.load(f.driver_close, {"cuFileDriverClose_v2", "cuFileDriverClose"});
    library.load(f.version, "cuFileGetVersion");
    library.load(f.write_async, "cuFileWriteAsync");
    const CUfileError_t opened = f.driver_open();
    if (opened.err != CU_FILE_SUCCESS) {
        f.driver_close = nullptr;
        why_not = "cuFileDriverOpen failed: " + words(opened);
        return nullptr;
    }
    return found;
}

CuFile::~CuFile() {
    if (call_ && call_->driver_close != nullptr) call_->driver_close();
}

std::string CuFile::version() const {
    int version = 0;
    if (call_->version == nullptr || call_->version(&version).err != CU_FILE_SUCCESS) return "not reported";
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) + "." +
           std::to_string(version % 10);
}

std::string CuFile::properties() const {
    CUfileDrvProps_t props;
    std::memset(&props, 0, sizeof props);
    const CUfileError_t result = call_->properties(&props);
    if (result.err != CU_FILE_SUCCESS) return "not reported: " + words(result);
    static const char* const systems[] = {"Lustre", "WekaFS",  "NFS",  "GPFS",
                                          "NVMe",   "NVMe-oF", "SCSI", "ScaleFlux",
                                          "NVMesh", "BeeGFS",  "",     "NVMe by PCI P2PDMA",
                                          "ScateFS"};
    std::string supported;
    for (unsigned bit = 0; bit < sizeof systems / sizeof *systems; ++bit) {
        if ((props.nvfs.dstatusflags >> bit & 1) == 0 || *systems[bit] == '\0') continue;
        supported += (supported.empty() ? "" : ", ") + std::string(systems[bit]);
    }
    return "nvidia-fs " + std::to_string(props.nvfs.major_version) + "." +
           std::to_string(props.nvfs.minor_version) +
           ", supported: " + (supported.empty() ? "none" : supported) + ", compatibility mode " +
           ((props.nvfs.dcontrolflags >> 1 & 1) != 0 ? "allowed" : "not allowed") + ", polling " +
           ((props.nvfs.dcontrolflags & 1) != 0 ? "on" : "off") + ", largest direct I/O " +
           std::to_string(props.nvfs.max_direct_io_size) + " KiB, device cache " +
           std::to_string(props.max_device_cache_size) + " KiB (" +
           std::to_string(props.per_buffer_cache_size) + " KiB a buffer)";
}

void* CuFile::add(int descriptor, const std::string& path) const {
    CUfileDescr_t description;
    std::memset(&description, 0, sizeof description);
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = descriptor;
    CUfileHandle_t handle = nullptr;
    const CUfileError_t result = call_->add(&handle, &description);
    if (result.err != CU_FILE_SUCCESS) {
        throw FileError("cuFile does not take " + path + ": " + words(result) + of_rank());
    }
    return handle;
}

void CuFile::remove(void* handle) const {
    call_->remove(handle);
}

bool CuFile::add_buffer(const void* base, std::size_t bytes) const {
    return call_->add_buffer(base, bytes, 0).err == CU_FILE_SUCCESS;
}

void CuFile::remove_buffer(const void* base) const {
    call_->remove_buffer(base);
}

void CuFile::write(void* handle, const void* base, std::size_t bytes, std::uint64_t offset, std::uint64_t at,
                   const File& file) const {
    while (bytes > 0) {
        const ssize_t count =
            call_->write(handle, base, bytes, static_cast<off_t>(offset), static_cast<off_t>(at));
        if (count <= 0) {
            throw FileError("cuFile cannot write " + file.path() + " at offset " + std::to_string(offset) +
                            ": " + reason(count) + of_rank());
        }
        bytes -= static_cast<std::size_t>(count);
        offset += static_cast<std::uint64_t>(count);
        at += static_cast<std::uint64_t>(count);
    }
}

void CuFile::read(void* handle, void* base, std::size_t bytes, std::uint64_t offset, std::uint64_t at,
                  const File& file) const {
    while (bytes > 0) {
        const ssize_t count =
            call_->read(handle, base, bytes, static_cast<off_t>(offset), static_cast<off_t>(at));
        if (count < 0) {
            throw FileError("cuFile cannot read " + file.path() + " at offset " + std::to_string(offset) +
                            ": " + reason(count) + of_rank());
        }
        if (count == 0) throw file.cut_short(offset + bytes);
        bytes -= static_cast<std::size_t>(count);
        offset += static_cast<std::uint64_t>(count);
        at += static_cast<std::uint64_t>(count);
    }
}

std::string CuFile::write_async(void* handle, void* base, AsyncWrite& what, cudaStream_t stream) const {
    if (call_->write_async == nullptr) return "this cuFile has no cuFileWriteAsync()";
    const CUfileError_t result =
        call_->write_async(handle, base, &what.bytes, &what.offset, &what.at, &what.written, stream);
    return result.err == CU_FILE_SUCCESS ? "" : words(result);
}

#else  // a toolkit without cuFile

struct CuFile::Functions {};

std::shared_ptr<const CuFile> CuFile::open(std::string& why_not) {
    why_not = "built with a CUDA toolkit without cufile.h";
    return nullptr;
}
CuFile::~CuFile() = default;
std::string CuFile::version() const {
    return "";
}
std::string CuFile::properties() const {
    return "";
}
void* CuFile::add(int, const std::string&) const {
    return nullptr;
}
void CuFile::remove(void*) const {}
bool CuFile::add_buffer(const void*, std::size_t) const {
    return false;
}
void CuFile::remove_buffer(const void*) const {}
void CuFile::write(void*, const void*, std::size_t, std::uint64_t, std::uint64_t, const File&) const {}
void CuFile::read(void*, void*, std::size_t, std::uint64_t, std::uint64_t, const File&) const {}
std::string CuFile::write_async(void*, void*, AsyncWrite&, cudaStream_t) const {
    return "built without cuFile";
}

#endif

}  // namespace file_io

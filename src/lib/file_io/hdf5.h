// HDF5, loaded at run time: programs also start without it, and any version from 1.10 on is supported. The
// declarations required are here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/file_io/particles.h"

namespace file_io {

/// The library's functions, and its optional parts.
class Hdf5 {
  public:
    typedef std::int64_t Id;
    typedef unsigned long long Size;

    /// Loads the library named by TENKEN_HDF5, otherwise the first of the usual names that is found.
    /// @return nothing if it cannot be loaded, with the reason in `why_not`
    static std::shared_ptr<const Hdf5> open(std::string& why_not);

    const std::string& version() const { return version_; }
    const std::string& file_name() const { return file_name_; }
    bool has_direct() const { return set_direct != nullptr; }
    /// Whether H5Dread_multi() and H5Dwrite_multi() exist (1.14).
    bool has_multi() const { return write_multi != nullptr && read_multi != nullptr; }
    /// The GPUDirect Storage driver (vfd-gds), from the library named by TENKEN_HDF5_GDS or its usual name.
    bool has_gds() const { return set_gds != nullptr; }
    const std::string& why_no_gds() const { return why_no_gds_; }

    /// The result, unless it is negative. @throws FileError with HDF5's own words
    Id check(Id result, const std::string& what) const;

    Id (*create_list)(Id) = nullptr;
    int (*close_list)(Id) = nullptr;
    int (*set_sec2)(Id) = nullptr;
    int (*set_direct)(Id, std::size_t, std::size_t, std::size_t) = nullptr;
    int (*set_gds)(Id, std::size_t, std::size_t, std::size_t) = nullptr;
    int (*set_alignment)(Id, Size, Size) = nullptr;
    int (*set_sieve_bytes)(Id, std::size_t) = nullptr;
    int (*set_alloc_time)(Id, int) = nullptr;
    int (*set_fill_time)(Id, int) = nullptr;
    Id (*create_file)(const char*, unsigned, Id, Id) = nullptr;
    Id (*open_file)(const char*, unsigned, Id) = nullptr;
    int (*close_file)(Id) = nullptr;
    Id (*create_space)(int, const Size*, const Size*) = nullptr;
    int (*select)(Id, int, const Size*, const Size*, const Size*, const Size*) = nullptr;
    int (*extent)(Id, Size*, Size*) = nullptr;
    int (*close_space)(Id) = nullptr;
    Id (*create_dataset)(Id, const char*, Id, Id, Id, Id, Id) = nullptr;
    Id (*open_dataset)(Id, const char*, Id) = nullptr;
    Id (*space_of)(Id) = nullptr;
    std::uint64_t (*offset_of)(Id) = nullptr;
    int (*close_dataset)(Id) = nullptr;
    int (*write)(Id, Id, Id, Id, Id, const void*) = nullptr;
    int (*read)(Id, Id, Id, Id, Id, void*) = nullptr;
    int (*flush)(Id) = nullptr;
    int (*write_multi)(std::size_t, Id*, Id*, Id*, Id*, Id, const void**) = nullptr;
    int (*read_multi)(std::size_t, Id*, Id*, Id*, Id*, Id, void**) = nullptr;

    Id file_access_class = 0;
    Id dataset_create_class = 0;
    Id native_float = 0;
    Id native_id = 0;
    Id file_float = 0;
    Id file_id = 0;

  private:
    Hdf5() = default;
    std::string version_;
    std::string file_name_;
    std::string why_no_gds_;
    int (*walk_errors_)(Id, int, int (*)(unsigned, const void*, void*), void*) = nullptr;
};

/// The virtual file drivers of HDF5 for snapshots.
enum class Driver {
    sec2,    ///< read() and write()
    direct,  ///< O_DIRECT
    gds      ///< GPUDirect Storage: takes GPU addresses
};

/// How data is passed to and from HDF5.
enum class Pieces {
    datasets,   ///< each dataset as a whole, which HDF5 passes on directly
    selections  ///< gathered by HDF5 in its own buffer, 64 KiB per dataset
};

/// A snapshot in an HDF5 file: four contiguous datasets, allocated when they are created, each at a
/// multiple of 4096 bytes, so that their data can also be accessed without HDF5.
class SnapshotFile {
  public:
    /// @throws FileError
    static std::unique_ptr<SnapshotFile> create(std::shared_ptr<const Hdf5> library, const std::string& path,
                                                Layout layout, std::uint64_t particles, Driver driver,
                                                Pieces pieces = Pieces::datasets);
    /// @throws FileError, also if a dataset is missing or has another shape
    static std::unique_ptr<SnapshotFile> open(std::shared_ptr<const Hdf5> library, const std::string& path,
                                              Layout layout, std::uint64_t particles, Driver driver,
                                              Pieces pieces = Pieces::datasets);
    ~SnapshotFile();
    SnapshotFile(const SnapshotFile&) = delete;
    SnapshotFile& operator=(const SnapshotFile&) = delete;

    /// Offset of a dataset in the file.
    std::uint64_t offset(int dataset) const { return offsets_[dataset]; }
    std::uint64_t bytes(int dataset) const;

    /// All datasets in one call, if HDF5 supports it, from memory in the layout of the file.
    void write(const Quartet& memory);
    void read(const Quartet& memory);
    /// One dataset.
    void write_one(int dataset, const char* memory);
    void read_one(int dataset, char* memory);
    /// The hyperslab layout from and to the arrays of the simulation, by selections in memory; written data
    /// has been passed to the file system on return.
    void write_selected(const Quartet& arrays);
    void read_selected(const Quartet& arrays);
    /// Flushes HDF5's own buffers. @throws FileError
    void close();

  private:
    SnapshotFile(std::shared_ptr<const Hdf5> library, std::string path, Layout layout,
                 std::uint64_t particles);
    Hdf5::Id access(Driver driver, Pieces pieces) const;
    void selected(bool to_file, const Quartet& arrays);
    /// Columns [from, from + count) of N x columns.
    Hdf5::Id columns(unsigned columns, unsigned from, unsigned count) const;

    std::shared_ptr<const Hdf5> library_;
    std::string path_;
    Layout layout_;
    std::uint64_t particles_;
    Hdf5::Id file_ = -1;
    Hdf5::Id dataset_[datasets] = {-1, -1, -1, -1};
    std::uint64_t offsets_[datasets] = {0, 0, 0, 0};
};

}  // namespace file_io

#include "lib/file_io/hdf5.h"

#include <vector>

#include "lib/base/dynlib.h"
#include "lib/file_io/file.h"

namespace file_io {

namespace {

// From HDF5's documented interface: only the values used in this file.
constexpr unsigned truncate = 2;
constexpr unsigned read_only = 0;
constexpr int alloc_early = 1;
constexpr int fill_never = 1;
constexpr int select_set = 0;
constexpr Hdf5::Id all = 0;
constexpr Hdf5::Id by_default = 0;
constexpr int innermost_first = 0;
constexpr std::uint64_t undefined_address = ~std::uint64_t{0};
/// Buffer of the drivers that copy unaligned data.
constexpr std::size_t copy_buffer = std::size_t{16} << 20;

struct ErrorLine {
    Hdf5::Id class_id, major, minor;
    unsigned line;
    const char* function;
    const char* file;
    const char* description;
};

int first_description(unsigned number, const void* line, void* text) {
    const char* const description = static_cast<const ErrorLine*>(line)->description;
    if (number == 0 && description != nullptr) *static_cast<std::string*>(text) = description;
    return 0;
}

/// The value of a variable in the library.
bool load_value(const tenken::DynamicLibrary& library, Hdf5::Id& value, const char* name) {
    const void* const variable = library.symbol(name);
    if (variable == nullptr) return false;
    value = *static_cast<const Hdf5::Id*>(variable);
    return true;
}

/// Closes an identifier at the end of a block. The error of a call that used it must be queried earlier,
/// because every call clears the previous error.
class Closing {
  public:
    Closing(Hdf5::Id one, int (*close)(Hdf5::Id)) : one_(one), close_(close) {}
    ~Closing() {
        if (one_ >= 0) close_(one_);
    }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;
    Hdf5::Id get() const { return one_; }

  private:
    Hdf5::Id one_;
    int (*close_)(Hdf5::Id);
};

}  // namespace

std::shared_ptr<const Hdf5> Hdf5::open(std::string& why_not) {
    using tenken::DynamicLibrary;
    std::string error;
    // Debian calls the library without MPI libhdf5_serial.
    const DynamicLibrary loaded = DynamicLibrary::open_first(
        DynamicLibrary::names("TENKEN_HDF5", {"libhdf5.so", "libhdf5_serial.so", "libhdf5.so.320",
                                              "libhdf5.so.310", "libhdf5.so.200", "libhdf5.so.103",
                                              "libhdf5_serial.so.310", "libhdf5_serial.so.103"}),
        error);
    if (!loaded) {
        why_not = "HDF5 cannot be loaded: " + error + "; Debian's libhdf5-dev has it, and h5py of PyPI";
        return nullptr;
    }
    const std::string& name = loaded.name();
    std::shared_ptr<Hdf5> library(new Hdf5);
    Hdf5& h = *library;
    h.file_name_ = name;
    int (*begin)() = nullptr;
    int (*version)(unsigned*, unsigned*, unsigned*) = nullptr;
    int (*print_errors)(Id, void*, void*) = nullptr;
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    if (!loaded.load(begin, "H5open") || !loaded.load(version, "H5get_libversion") || begin() < 0 ||
        version(&major, &minor, &release) < 0) {
        why_not = name + " is not HDF5: H5open() is missing or fails";
        return nullptr;
    }
    h.version_ = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
    if (major == 1 && minor < 10) {
        why_not = "HDF5 " + h.version_ + " is too old: 1.10 is needed (" + name + ")";
        return nullptr;
    }
    const bool complete =
        loaded.load(print_errors, "H5Eset_auto2") && loaded.load(h.walk_errors_, "H5Ewalk2") &&
        loaded.load(h.create_list, "H5Pcreate") && loaded.load(h.close_list, "H5Pclose") &&
        loaded.load(h.set_sec2, "H5Pset_fapl_sec2") && loaded.load(h.set_alignment, "H5Pset_alignment") &&
        loaded.load(h.set_sieve_bytes, "H5Pset_sieve_buf_size") && loaded.load(h.flush, "H5Dflush") &&
        loaded.load(h.set_alloc_time, "H5Pset_alloc_time") &&
        loaded.load(h.set_fill_time, "H5Pset_fill_time") && loaded.load(h.create_file, "H5Fcreate") &&
        loaded.load(h.open_file, "H5Fopen") && loaded.load(h.close_file, "H5Fclose") &&
        loaded.load(h.create_space, "H5Screate_simple") && loaded.load(h.select, "H5Sselect_hyperslab") &&
        loaded.load(h.extent, "H5Sget_simple_extent_dims") && loaded.load(h.close_space, "H5Sclose") &&
        loaded.load(h.create_dataset, "H5Dcreate2") && loaded.load(h.open_dataset, "H5Dopen2") &&
        loaded.load(h.space_of, "H5Dget_space") && loaded.load(h.offset_of, "H5Dget_offset") &&
        loaded.load(h.close_dataset, "H5Dclose") && loaded.load(h.write, "H5Dwrite") &&
        loaded.load(h.read, "H5Dread") &&
        load_value(loaded, h.file_access_class, "H5P_CLS_FILE_ACCESS_ID_g") &&
        load_value(loaded, h.dataset_create_class, "H5P_CLS_DATASET_CREATE_ID_g") &&
        load_value(loaded, h.native_float, "H5T_NATIVE_FLOAT_g") &&
        load_value(loaded, h.native_id, "H5T_NATIVE_UINT64_g") &&
        load_value(loaded, h.file_float, "H5T_IEEE_F32LE_g") &&
        load_value(loaded, h.file_id, "H5T_STD_U64LE_g");
    if (!complete) {
        why_not = name + " lacks a function of HDF5 1.10";
        return nullptr;
    }
    print_errors(0, nullptr, nullptr);  // check() reports failures
    loaded.load(h.set_direct, "H5Pset_fapl_direct");
    loaded.load(h.write_multi, "H5Dwrite_multi");
    loaded.load(h.read_multi, "H5Dread_multi");
    const DynamicLibrary gds = DynamicLibrary::open_first(
        DynamicLibrary::names("TENKEN_HDF5_GDS", {"libhdf5_vfd_gds.so"}), h.why_no_gds_);
    if (gds && !gds.load(h.set_gds, "H5Pset_fapl_gds")) {
        h.why_no_gds_ = gds.name() + " has no H5Pset_fapl_gds()";
    }
    return library;
}

Hdf5::Id Hdf5::check(Id result, const std::string& what) const {
    if (result >= 0) return result;
    std::string words;
    walk_errors_(0, innermost_first, first_description, &words);
    throw FileError("HDF5 cannot " + what + (words.empty() ? "" : ": " + words) + of_rank());
}

SnapshotFile::SnapshotFile(std::shared_ptr<const Hdf5> library, std::string path, Layout layout,
                           std::uint64_t particles)
    : library_(std::move(library)), path_(std::move(path)), layout_(layout), particles_(particles) {}

SnapshotFile::~SnapshotFile() {
    for (Hdf5::Id one : dataset_) {
        if (one >= 0) library_->close_dataset(one);
    }
    if (file_ >= 0) library_->close_file(file_);
}

std::uint64_t SnapshotFile::bytes(int dataset) const {
    return particles_ * datasets_of(layout_)[dataset].words() * sizeof(std::uint32_t);
}

Hdf5::Id SnapshotFile::access(Driver driver, Pieces pieces) const {
    const Hdf5& h = *library_;
    const Hdf5::Id list = h.check(h.create_list(h.file_access_class), "create a property list");
    int result = 0;
    if (driver == Driver::sec2) result = h.set_sec2(list);
    if (driver == Driver::direct) result = h.set_direct(list, 4096, 4096, copy_buffer);
    if (driver == Driver::gds) result = h.set_gds(list, 4096, 4096, copy_buffer);
    h.check(result, "choose its driver");
    // Data that fits into its buffer would be kept there until the file is closed.
    if (pieces == Pieces::datasets) h.check(h.set_sieve_bytes(list, 0), "write datasets at once");
    // Datasets begin on a page; smaller objects, HDF5's own metadata, stay together.
    h.check(h.set_alignment(list, 4096, File::direct_alignment), "align datasets");
    return list;
}

std::unique_ptr<SnapshotFile> SnapshotFile::create(std::shared_ptr<const Hdf5> library,
                                                   const std::string& path, Layout layout,
                                                   std::uint64_t particles, Driver driver, Pieces pieces) {
    const Hdf5& h = *library;
    std::unique_ptr<SnapshotFile> file(new SnapshotFile(library, path, layout, particles));
    const Closing access(file->access(driver, pieces), h.close_list);
    file->file_ = h.check(h.create_file(path.c_str(), truncate, by_default, access.get()), "create " + path);
    const Closing creation(h.check(h.create_list(h.dataset_create_class), "create a property list"),
                           h.close_list);
    h.check(h.set_alloc_time(creation.get(), alloc_early), "ask for space");
    h.check(h.set_fill_time(creation.get(), fill_never), "leave datasets unfilled");
    for (int d = 0; d < datasets; ++d) {
        const Dataset& dataset = datasets_of(layout)[d];
        const Hdf5::Size shape[2] = {particles, dataset.columns};
        const Closing space(
            h.check(h.create_space(dataset.columns > 1 ? 2 : 1, shape, nullptr), "make a space"),
            h.close_space);
        file->dataset_[d] =
            h.check(h.create_dataset(file->file_, dataset.name, dataset.is_id ? h.file_id : h.file_float,
                                     space.get(), by_default, creation.get(), by_default),
                    std::string("create dataset ") + dataset.name + " in " + path);
        file->offsets_[d] = h.offset_of(file->dataset_[d]);
        if (file->offsets_[d] == undefined_address) {
            throw FileError(path + ": dataset " + dataset.name + " has no place in the file" + of_rank());
        }
    }
    return file;
}

std::unique_ptr<SnapshotFile> SnapshotFile::open(std::shared_ptr<const Hdf5> library, const std::string& path,
                                                 Layout layout, std::uint64_t particles, Driver driver,
                                                 Pieces pieces) {
    const Hdf5& h = *library;
    std::unique_ptr<SnapshotFile> file(new SnapshotFile(library, path, layout, particles));
    const Closing access(file->access(driver, pieces), h.close_list);
    file->file_ = h.check(h.open_file(path.c_str(), read_only, access.get()), "open " + path);
    for (int d = 0; d < datasets; ++d) {
        const Dataset& dataset = datasets_of(layout)[d];
        file->dataset_[d] = h.check(h.open_dataset(file->file_, dataset.name, by_default),
                                    std::string("open dataset ") + dataset.name + " of " + path);
        const Hdf5::Id space = h.check(h.space_of(file->dataset_[d]), "query a shape");
        Hdf5::Size shape[32] = {0, 1};
        const int rank = h.extent(space, shape, nullptr);
        h.close_space(space);
        if (rank < 1 || rank > 2 || shape[0] != particles || (rank == 2 ? shape[1] : 1) != dataset.columns) {
            throw FileError(path + ": dataset " + dataset.name + " has another shape than " +
                            std::to_string(particles) + " x " + std::to_string(dataset.columns) + of_rank());
        }
        file->offsets_[d] = h.offset_of(file->dataset_[d]);
    }
    return file;
}

void SnapshotFile::write_one(int dataset, const char* memory) {
    const Hdf5::Id type = datasets_of(layout_)[dataset].is_id ? library_->native_id : library_->native_float;
    library_->check(library_->write(dataset_[dataset], type, all, all, by_default, memory),
                    std::string("write dataset ") + datasets_of(layout_)[dataset].name + " of " + path_);
}

void SnapshotFile::read_one(int dataset, char* memory) {
    const Hdf5::Id type = datasets_of(layout_)[dataset].is_id ? library_->native_id : library_->native_float;
    library_->check(library_->read(dataset_[dataset], type, all, all, by_default, memory),
                    std::string("read dataset ") + datasets_of(layout_)[dataset].name + " of " + path_);
}

void SnapshotFile::write(const Quartet& memory) {
    if (!library_->has_multi()) {
        for (int d = 0; d < datasets; ++d) write_one(d, memory.at[d]);
        return;
    }
    Hdf5::Id types[datasets];
    Hdf5::Id spaces[datasets] = {all, all, all, all};
    const void* from[datasets];
    for (int d = 0; d < datasets; ++d) {
        types[d] = datasets_of(layout_)[d].is_id ? library_->native_id : library_->native_float;
        from[d] = memory.at[d];
    }
    library_->check(library_->write_multi(datasets, dataset_, types, spaces, spaces, by_default, from),
                    "write the datasets of " + path_);
}

void SnapshotFile::read(const Quartet& memory) {
    if (!library_->has_multi()) {
        for (int d = 0; d < datasets; ++d) read_one(d, memory.at[d]);
        return;
    }
    Hdf5::Id types[datasets];
    Hdf5::Id spaces[datasets] = {all, all, all, all};
    void* to[datasets];
    for (int d = 0; d < datasets; ++d) {
        types[d] = datasets_of(layout_)[d].is_id ? library_->native_id : library_->native_float;
        to[d] = memory.at[d];
    }
    library_->check(library_->read_multi(datasets, dataset_, types, spaces, spaces, by_default, to),
                    "read the datasets of " + path_);
}

Hdf5::Id SnapshotFile::columns(unsigned columns, unsigned from, unsigned count) const {
    const Hdf5::Size shape[2] = {particles_, columns};
    const int rank = columns > 1 ? 2 : 1;
    const Hdf5::Id space = library_->check(library_->create_space(rank, shape, nullptr), "make a space");
    const Hdf5::Size start[2] = {0, from};
    const Hdf5::Size counts[2] = {particles_, count};
    library_->check(library_->select(space, select_set, start, nullptr, counts, nullptr), "select columns");
    return space;
}

void SnapshotFile::selected(bool to_file, const Quartet& arrays) {
    /// Columns of an array in memory, and their position in a dataset.
    struct Part {
        int array;
        unsigned columns, from, count;
        int dataset;
        unsigned to;
    };
    static const Part parts[] = {{position_mass, 4, 0, 3, 0, 0},
                                 {velocity_xy, 2, 0, 2, 1, 0},
                                 {velocity_z, 1, 0, 1, 1, 2},
                                 {position_mass, 4, 3, 1, 2, 0}};
    const Hdf5& h = *library_;
    for (const Part& part : parts) {
        const Closing memory(columns(part.columns, part.from, part.count), h.close_space);
        const Closing file(columns(datasets_of(layout_)[part.dataset].columns, part.to, part.count),
                           h.close_space);
        char* const data = arrays.at[part.array];
        const int result =
            to_file
                ? h.write(dataset_[part.dataset], h.native_float, memory.get(), file.get(), by_default, data)
                : h.read(dataset_[part.dataset], h.native_float, memory.get(), file.get(), by_default, data);
        h.check(result, std::string(to_file ? "write" : "read") + " dataset " +
                            datasets_of(layout_)[part.dataset].name + " of " + path_ + " by selection");
    }
    if (!to_file) return read_one(id, arrays.at[id]);
    write_one(id, arrays.at[id]);
    for (int d = 0; d < datasets; ++d) {
        h.check(h.flush(dataset_[d]),
                std::string("flush dataset ") + datasets_of(layout_)[d].name + " of " + path_);
    }
}

void SnapshotFile::write_selected(const Quartet& arrays) {
    selected(true, arrays);
}

void SnapshotFile::read_selected(const Quartet& arrays) {
    selected(false, arrays);
}

void SnapshotFile::close() {
    for (Hdf5::Id& one : dataset_) {
        if (one >= 0) library_->check(library_->close_dataset(one), "close a dataset of " + path_);
        one = -1;
    }
    const Hdf5::Id file = file_;
    file_ = -1;
    if (file >= 0) library_->check(library_->close_file(file), "close " + path_);
}

}  // namespace file_io

// Shared libraries loaded at run time, so that programs also start where they are missing.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace tenken {

/// A loaded library, or none. It remains loaded after the object is destroyed: its threads may still run.
class DynamicLibrary {
  public:
    enum class Symbols {
        local,  ///< symbols visible only through this object
        global  ///< symbols visible to libraries loaded later
    };

    /// The candidates: the library named by the environment variable, otherwise the usual names.
    static std::vector<std::string> names(const char* variable, std::vector<std::string> usual);
    /// Loads a library by name or path. On failure the object is false and `why_not` is the loader's
    /// message.
    static DynamicLibrary open(const std::string& name, std::string& why_not,
                               Symbols symbols = Symbols::local);
    /// The first of several that can be loaded. If none can, `why_not` is the message for the first.
    static DynamicLibrary open_first(const std::vector<std::string>& names, std::string& why_not,
                                     Symbols symbols = Symbols::local);

    explicit operator bool() const { return handle_ != nullptr; }
    /// The name by which it was loaded.
    const std::string& name() const { return name_; }
    /// The address of a function or variable; null if there is none.
    void* symbol(const char* name) const;
    /// Points `function` at the first of these names that exists, null if none does.
    /// @return whether one exists
    template <typename Function>
    bool load(Function& function, std::initializer_list<const char*> names) const {
        void* found = nullptr;
        for (const char* name : names) found = found == nullptr ? symbol(name) : found;
        // ISO C++ has no cast from void* to a function pointer; POSIX guarantees that this works.
        *reinterpret_cast<void**>(&function) = found;
        return found != nullptr;
    }
    template <typename Function>
    bool load(Function& function, const char* name) const {
        return load(function, {name});
    }
    /// Unloads it: its symbols must not be used afterwards.
    void close();

  private:
    void* handle_ = nullptr;
    std::string name_;
};

}  // namespace tenken

#include "lib/sparse/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace sparse {

namespace {

std::string reason() {
    return std::strerror(errno);
}

/// An open file that closes itself.
class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) close(number_);
    }
    Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return number_; }

    std::size_t read(char* to, std::size_t size) const {
        for (;;) {
            const ssize_t got = ::read(number_, to, size);
            if (got >= 0) return static_cast<std::size_t>(got);
            if (errno != EINTR) throw std::runtime_error("cannot be read: " + reason());
        }
    }

  private:
    int number_;
};

class File : public ByteSource {
  public:
    explicit File(Descriptor file) : file_(std::move(file)) {}
    std::size_t read(char* to, std::size_t size) override { return file_.read(to, size); }

  private:
    Descriptor file_;
};

constexpr int no_program = 127;

/// The output of `gzip -dc`.
class Gzip : public ByteSource {
  public:
    Gzip(Descriptor output, pid_t child) : output_(std::move(output)), child_(child) {}
    ~Gzip() override {
        if (child_ <= 0) return;
        kill(child_, SIGKILL);
        wait_for_child();
    }

    std::size_t read(char* to, std::size_t size) override {
        const std::size_t got = output_.read(to, size);
        if (got > 0 || child_ <= 0) return got;
        const int status = wait_for_child();
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == no_program) {
            throw std::runtime_error("is compressed, and there is no program gzip to decompress it");
        }
        throw std::runtime_error("the compressed data is damaged or cut short");
    }

  private:
    int wait_for_child() {
        int status = 0;
        while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
        }
        child_ = 0;
        return status;
    }

    Descriptor output_;
    pid_t child_;
};

std::unique_ptr<ByteSource> open_gzip(const Descriptor& file) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("cannot create a pipe: " + reason());
    Descriptor output(ends[0]);
    const Descriptor input(ends[1]);
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("cannot start gzip: " + reason());
    if (child == 0) {
        const int nowhere = open("/dev/null", O_WRONLY);
        dup2(file.get(), STDIN_FILENO);
        dup2(input.get(), STDOUT_FILENO);
        if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);  // its exit status contains the same information
        close(output.get());
        close(input.get());
        execlp("gzip", "gzip", "-dc", static_cast<char*>(nullptr));
        _exit(no_program);
    }
    fcntl(output.get(), F_SETFD, FD_CLOEXEC);
    return std::unique_ptr<ByteSource>(new Gzip(std::move(output), child));
}

class Memory : public ByteSource {
  public:
    Memory(const char* text, std::size_t size) : text_(text), left_(size) {}
    std::size_t read(char* to, std::size_t size) override {
        const std::size_t count = std::min(size, left_);
        if (count > 0) std::memcpy(to, text_, count);
        text_ += count;
        left_ -= count;
        return count;
    }

  private:
    const char* text_;
    std::size_t left_;
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path) {
    Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) throw std::runtime_error("cannot be opened: " + reason());
    struct stat about;
    if (fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) {
        throw std::runtime_error("is not an ordinary file");
    }
    unsigned char magic[2] = {0, 0};
    const ssize_t got = pread(file.get(), magic, sizeof magic, 0);
    if (got == 2 && magic[0] == 0x1f && magic[1] == 0x8b) return open_gzip(file);
    return std::unique_ptr<ByteSource>(new File(std::move(file)));
}

std::unique_ptr<ByteSource> open_memory(const char* text, std::size_t size) {
    return std::unique_ptr<ByteSource>(new Memory(text, size));
}

}  // namespace sparse

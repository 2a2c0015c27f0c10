#include "lib/base/program.h"
#include "programs/hpl/backend.h"
#include "programs/hpl/host_engine.h"

namespace hpl {

namespace {

class HostBackend : public tenken::HostRankBackend<Backend> {
  public:
    void options(tenken::Arguments& arguments) override {
        arguments.heading("options of --backend host");
        arguments.choice("algorithm", algorithm_, {"auto", "lapack", "blocks"},
                         "the whole by LAPACK, or by the GPU algorithm with panels by LAPACK; auto: LAPACK "
                         "if there is one process");
    }

    void prepare(const tenken::Arguments& arguments, Ranks& ranks) override {
        direct_ = algorithm_ != "blocks" && ranks.size() == 1;
        if (algorithm_ == "lapack" && !direct_)
            throw arguments.error("algorithm", "auto or blocks with several ranks");
        std::string why_not;
        blas_ = Blas::open(why_not);
        if (!blas_) throw tenken::Waived(tenken::Waiver::library_missing, why_not);
        share_with(ranks);
    }

    std::uint64_t needed_bytes(const Layout& layout) const override { return host_bytes(layout, direct_); }
    std::vector<std::int64_t> blocks_to_try() const override { return {128, 256}; }
    std::int64_t min_width() const override { return 64; }
    std::unique_ptr<Engine> make(const Layout& layout, Ranks& ranks) override {
        return make_host_engine(layout, *blas_, ranks, direct_);
    }
    std::vector<double> library_solution(const Matrix& matrix) override {
        Ranks alone;
        const std::unique_ptr<Engine> engine =
            make_host_engine(Layout(matrix.n, matrix.n, 1, 1, 0, 0), *blas_, alone, true);
        engine->generate(matrix);
        engine->solve_directly(false);
        return engine->solution();
    }
    void report(tenken::Document& document, tenken::Ranks&) override {
        document.build.libraries.emplace_back("BLAS", blas_->text());
    }

  private:
    std::string algorithm_ = "auto";
    bool direct_ = true;
    std::unique_ptr<Blas> blas_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend() {
    return std::unique_ptr<Backend>(new HostBackend);
}

}  // namespace hpl

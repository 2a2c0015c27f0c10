// y = A x with sparse matrices, generated or read from files, by every variant of a back end, compared with
// the bandwidth of a dot product in the same run.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "lib/base/host.h"
#include "lib/base/program.h"
#include "lib/sparse/generators.h"
#include "lib/sparse/matrix_market.h"
#include "lib/sparse/random.h"
#include "programs/spmv/backend.h"
#include "programs/spmv/reference.h"

namespace spmv {

std::vector<std::unique_ptr<Family>> families() {
    std::vector<std::unique_ptr<Family>> list;
    list.push_back(make_host_family());
#ifdef TENKEN_HAVE_CUDA
    list.push_back(make_cuda_family());
#endif
    return list;
}

namespace {

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> words;
    std::string word;
    for (char c : text + ",") {
        if (c != ',') {
            word += c;
        } else if (!word.empty()) {
            words.push_back(word);
            word.clear();
        }
    }
    return words;
}

std::string join(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

/// A matrix to be measured: generated, or from a file.
struct Source {
    std::string name;  ///< as in metric ids
    bool generated = true;
    sparse::Spec spec;
    std::string file;
};

/// One variant on one matrix on one host or GPU.
struct Result {
    std::size_t place = 0;
    std::size_t matrix = 0;
    std::string variant;
    Outcome outcome;  ///< without y
    double flops = 0;
};

/// The data of a matrix that is reported after it is released.
struct About {
    std::string name;
    std::int64_t entries = 0;
};

std::string number(double value, const char* format = "%.4g") {
    char text[40];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

class Spmv : public tenken::Program {
  public:
    Spmv() : families_(families()), backend_(families_.front()->name()) {}

    std::string name() const override { return "spmv"; }
    std::string purpose() const override {
        return "Sparse matrix times vector in GFLOP/s (2 per entry), by format and kernel, against the "
               "bandwidth of a "
               "dot product in the same run.";
    }

    void options(tenken::Arguments& arguments) override {
        std::vector<std::string> backends;
        for (const auto& family : families_) backends.push_back(family->name());
        arguments.choice("backend", backend_, backends, "where to multiply");
        arguments.choice("precision", precision_, {"double", "single"}, "of values and vectors");
        std::string known;
        for (const sparse::Kind& kind : sparse::kinds()) {
            known += (known.empty() ? "" : "; ") + std::string(kind.name) +
                     (kind.default_width > 0 ? ":SIZE[:WIDTH] " : ":SIZE ") + kind.about;
        }
        arguments.text("matrices", matrices_, "LIST",
                       "generated matrices, comma-separated. " + known +
                           ". auto: the 27-point stencil of 5 x the last-level cache; none: only --files");
        arguments.text("files", files_, "LIST",
                       "Matrix Market files (also compressed by gzip), or folders of them, comma-separated");
        arguments.text("variants", variants_, "LIST", "all of the back end, or some of them");
        arguments.integer("seed", seed_, 0, std::int64_t{1} << 40, "of the generated matrices and of x");
        arguments.real("variant-warmup-seconds", variant_warmup_, "s", 0, 60,
                       "duration of the warm-up of each variant");
        for (const auto& family : families_) family->options(arguments);
    }

    std::vector<tenken::FaultKind> faults() const override {
        return {{"matrix-value", "one value of the matrix is wrong", "break-matrix", "value"},
                {"matrix-row", "the matrix lacks the entries of its last row", "break-matrix", "row"},
                {"matrix-index", "one entry is in the next column", "break-matrix", "index"}};
    }

    void prepare(const tenken::Arguments& arguments) override {
        for (const auto& family : families_) {
            if (family->name() == backend_) family_ = family.get();
        }
        chosen_ = choose_variants(arguments);
        find_sources(arguments);
        places_ = family_->places(arguments);
        if (matrices_ == "auto" && files_.empty()) {
            std::uint64_t bytes = std::uint64_t{64} << 20;
            for (const auto& place : places_) bytes = std::max(bytes, 5 * place->cache_bytes());
            add_generated(sparse::spec_of_bytes("poisson27", bytes));
        }
        for (const Source& source : sources_) {
            if (source.generated) {
                require_fit(arguments, "matrices", source.name, source.spec.rows(), source.spec.entries());
            }
        }
    }

    void measure(tenken::Run& run) override {
        tenken::Document& document = run.document;
        Plan plan;
        plan.repetitions = static_cast<long>(run.repetitions);
        plan.warmup_seconds = std::min(variant_warmup_, run.warmup_seconds);
        dots_.resize(places_.size());
        measure_dots(plan.repetitions, run.warmup_seconds);
        for (const Source& source : sources_) {
            try {
                measure_matrix(source, plan, run);
            } catch (const sparse::MarketError& error) {
                document.fail(error.what());  // the others are still measured
            }
        }
        measure_dots(plan.repetitions, 0);

        for (const auto& family : families_) document.build.backends.push_back(family->name());
        document.placement = tenken::find_placement();
        document.path("backend", backend_);
        family_->describe(document);
        for (std::size_t place = 0; place < places_.size(); ++place) report(place, document);
    }

  private:
    std::vector<std::string> choose_variants(const tenken::Arguments& arguments) const {
        const std::vector<std::string> allowed = family_->variants();
        if (variants_ == "all") return allowed;
        const std::vector<std::string> chosen = split(variants_);
        for (const std::string& one : chosen) {
            if (std::find(allowed.begin(), allowed.end(), one) == allowed.end()) {
                throw arguments.error("variants", "all, or some of " + join(allowed));
            }
        }
        if (chosen.empty()) throw arguments.error("variants", "all, or some of " + join(allowed));
        return chosen;
    }

    void find_sources(const tenken::Arguments& arguments) {
        if (matrices_ != "auto" && matrices_ != "none") {
            for (const std::string& text : split(matrices_)) {
                try {
                    add_generated(sparse::parse_spec(text));
                } catch (const std::invalid_argument& wrong) {
                    throw arguments.error("matrices",
                                          std::string("KIND:SIZE with a known kind: ") + wrong.what());
                }
            }
            if (sources_.empty()) throw arguments.error("matrices", "auto, none, or KIND:SIZE[:WIDTH],...");
        }
        for (const std::string& path : split(files_)) {
            std::vector<std::string> files = {path};
            if (is_folder(path)) {
                try {
                    files = sparse::market_files(path);
                } catch (const sparse::MarketError& wrong) {
                    throw arguments.error("files", std::string("files or folders of them: ") + wrong.what());
                }
            }
            for (const std::string& file : files) {
                Source source;
                source.generated = false;
                source.file = file;
                source.name = free_name(name_of_file(file));
                sources_.push_back(source);
            }
        }
        if (matrices_ == "none" && sources_.empty())
            throw arguments.error("matrices", "a matrix where --files has none");
    }

    static bool is_folder(const std::string& path) {
        try {
            sparse::open_file(path);
        } catch (const std::runtime_error& error) {
            return std::string(error.what()) == "is not an ordinary file";
        }
        return false;
    }

    void add_generated(const sparse::Spec& spec) {
        Source source;
        source.spec = spec;
        source.name = free_name(spec.name());
        sources_.push_back(source);
    }

    /// The file's name without folder and extensions, in the characters allowed in a metric's id.
    static std::string name_of_file(const std::string& path) {
        std::string name = path.substr(path.rfind('/') + 1);
        for (const char* const ending : {".gz", ".mtx"}) {
            const std::string end = ending;
            if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0) {
                name.resize(name.size() - end.size());
            }
        }
        for (char& c : name) {
            if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
            const bool fine =
                (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+';
            if (!fine) c = '_';
        }
        return name;
    }

    std::string free_name(const std::string& wanted) {
        std::string name = wanted;
        for (int i = 2; !names_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
        return name;
    }

    /// Before anything is built. During conversion a variant holds two further copies of the matrix.
    void require_fit(const tenken::Arguments& arguments, const std::string& option, const std::string& matrix,
                     std::uint64_t rows, std::uint64_t entries) const {
        const std::uint64_t once = sparse::csr_bytes(rows, entries);
        const std::uint64_t on_host = once * 5 / 2 + 40 * rows;
        const auto require = [&](std::uint64_t asked, std::uint64_t free, const std::string& where) {
            if (asked <= free / 10 * 9) return;
            throw arguments.error(option, "what fits into memory: " + matrix + " needs " +
                                              tenken::format_bytes(asked) + where + ", free " +
                                              tenken::format_bytes(free));
        };
        require(on_host, tenken::available_memory_bytes(), " on the host");
        for (const auto& place : places_) {
            if (place->subject().text() == "host") continue;
            require(once * 7 / 2, place->free_bytes(), " on " + place->subject().text());
        }
    }

    void measure_dots(long repetitions, double warmup_seconds) {
        for (std::size_t i = 0; i < places_.size(); ++i) {
            const tenken::TimedDots timed = places_[i]->time_dots(repetitions, warmup_seconds);
            if (dots_[i].seconds.empty()) dots_[i] = timed;
            const double rate = timed.bytes / *std::min_element(timed.seconds.begin(), timed.seconds.end());
            best_dot_[i] = std::max(best_dot_[i], rate);
        }
    }

    sparse::Csr build(const Source& source, tenken::Document& document) const {
        if (source.generated) return sparse::generate(source.spec, static_cast<std::uint64_t>(seed_));
        const double begin = tenken::now_seconds();
        sparse::MarketMatrix read =
            sparse::read_market_file(source.file, tenken::available_memory_bytes() / 10 * 4);
        document.path("read_seconds." + source.name, tenken::now_seconds() - begin);
        document.path("header." + source.name, read.header.text());
        if (read.matrix.entries() == 0)
            throw sparse::MarketError(source.file + ": no entries, nothing to multiply");
        return std::move(read.matrix);
    }

    void measure_matrix(const Source& source, const Plan& plan, tenken::Run& run) {
        sparse::Csr matrix = build(source, run.document);
        if (matrix.entries() == 0)
            throw sparse::MarketError(source.name + ": no entries, nothing to multiply");
        Problem problem;
        problem.matrix = &matrix;
        problem.single = precision_ == "single";
        problem.x.resize(static_cast<std::size_t>(matrix.columns));
        for (std::size_t i = 0; i < problem.x.size(); ++i) {
            problem.x[i] =
                2 * sparse::unit_real(sparse::mixed_bits(static_cast<std::uint64_t>(seed_) + 3, i, 0)) - 1;
        }
        const Reference reference(problem);
        const sparse::RowLengths lengths = sparse::row_lengths(matrix);
        run.document.path("rows." + source.name,
                          std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) +
                              ", entries a row " + std::to_string(lengths.minimum) + " to " +
                              std::to_string(lengths.maximum) + ", mean " + number(lengths.mean) +
                              ", deviation " + number(lengths.deviation));
        run.document.path("row_lengths." + source.name, lengths.text());
        abouts_.push_back({source.name, matrix.entries()});
        if (injected_fault().compare(0, 7, "matrix-") == 0) break_matrix(matrix);
        for (std::size_t place = 0; place < places_.size(); ++place) {
            places_[place]->load(problem);
            for (const std::string& variant : chosen_) {
                Result result;
                result.place = place;
                result.matrix = abouts_.size() - 1;
                result.variant = variant;
                result.flops = 2.0 * static_cast<double>(abouts_.back().entries);
                result.outcome = places_[place]->measure(variant, plan);
                if (!result.outcome.left_out.empty()) {
                    run.document.path("left_out." + variant + "." + source.name, result.outcome.left_out);
                    continue;
                }
                std::vector<double>& y = result.outcome.y;
                if (run.fault == tenken::Fault::element && checks_ == 0) {
                    double& victim = y[reference.largest_row()];
                    victim = problem.single ? victim * (1 + 1.0 / 128) : tenken::with_flipped_bit(victim);
                }
                ++checks_;
                run.document.add(reference.check(
                    y, places_[place]->subject(),
                    {{"variant", tenken::Json(variant)}, {"matrix", tenken::Json(source.name)}}));
                std::vector<double>().swap(y);
                results_.push_back(std::move(result));
            }
        }
    }

    /// The entry in the middle gets another value or column, or the last nonempty row loses its entries.
    void break_matrix(sparse::Csr& matrix) const {
        const auto middle = static_cast<std::size_t>(matrix.entries() / 2);
        if (injected_fault() == "matrix-value") {
            matrix.value[middle] = tenken::with_flipped_bit(matrix.value[middle]);
        } else if (injected_fault() == "matrix-index") {
            matrix.column[middle] = (matrix.column[middle] + 1) % matrix.columns;
        } else {
            std::size_t row = static_cast<std::size_t>(matrix.rows);
            while (row > 0 && matrix.offsets[row - 1] == matrix.offsets[row]) --row;
            for (std::size_t r = row; r <= static_cast<std::size_t>(matrix.rows); ++r) {
                matrix.offsets[r] = matrix.offsets[row - 1];
            }
        }
    }

    void report(std::size_t place, tenken::Document& document) const {
        tenken::Metric metric;
        metric.subject = places_[place]->subject();
        metric.clock = places_[place]->clock();
        metric.name = "dot";
        metric.timed(dots_[place].seconds, {{"bytes", dots_[place].bytes}});
        document.add(metric);
        document.path("best_dot_gbs." + metric.subject.text(), best_dot_.at(place) / 1e9);
        for (const Result& result : results_) {
            if (result.place == place) report_variant(result, metric, document);
        }
    }

    void report_variant(const Result& result, tenken::Metric metric, tenken::Document& document) const {
        const About& about = abouts_[result.matrix];
        metric.at = {{"matrix", tenken::Json(about.name)},
                     {"nnz", tenken::Json(about.entries)},
                     {"variant", tenken::Json(result.variant)}};
        metric.name = "spmv";
        metric.timed(result.outcome.seconds,
                     {{"operations", result.flops}, {"bytes", result.outcome.traffic_bytes}});
        document.add(metric);
        const std::string where = result.variant + "." + about.name + "." + metric.subject.text();
        document.path("places_an_entry." + where, result.outcome.padding);
        if (!result.outcome.launch.empty()) document.path(where, result.outcome.launch);

        metric.name = "prepare";
        metric.clock = "host";
        metric.timed({result.outcome.prepare_seconds});
        document.add(metric);
    }

    std::vector<std::unique_ptr<Family>> families_;
    std::string backend_;
    std::string precision_ = "double";
    std::string matrices_ = "auto";
    std::string files_;
    std::string variants_ = "all";
    std::int64_t seed_ = 1;
    double variant_warmup_ = 0.1;
    Family* family_ = nullptr;
    std::vector<std::string> chosen_;
    std::set<std::string> names_;
    std::vector<Source> sources_;
    std::vector<std::unique_ptr<Place>> places_;
    std::vector<tenken::TimedDots> dots_;     ///< by place, of the first time
    std::map<std::size_t, double> best_dot_;  ///< by place, bytes per second of either time
    std::vector<About> abouts_;
    std::vector<Result> results_;
    long checks_ = 0;
};

}  // namespace

}  // namespace spmv

int main(int argc, char** argv) {
    spmv::Spmv program;
    return tenken::run_program(program, argc, argv);
}

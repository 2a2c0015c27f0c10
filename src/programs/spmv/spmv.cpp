// y = A x with sparse matrices, generated or read from files, by every variant of a back end, compared with
// the bandwidth of a dot product in the same run.
#include <algorithm>
#include <cmath>
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

    double median_rate() const {
        return tenken::order_statistics(tenken::giga_per_second(flops, outcome.seconds),
                                        tenken::Direction::higher)
            .median;
    }
};

/// The data of a matrix that is reported after it is released.
struct About {
    std::string name;
    std::int64_t entries = 0;
};

constexpr const char* vendor_prefix = "cusparse_";

bool is_vendor(const std::string& variant) {
    return variant.compare(0, std::char_traits<char>::length(vendor_prefix), vendor_prefix) == 0;
}

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
            const std::vector<double> rates = places_[i]->dot_rates(repetitions, warmup_seconds);
            if (dots_[i].empty()) {
                dots_[i] = rates;
            }
            for (double rate : rates) best_dot_[i] = std::max(best_dot_[i], rate);
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
                const std::string what =
                    variant + " of " + source.name + " on " + places_[place]->subject().text();
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
                run.document.add(reference.check(y, what));
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

    /// The limit of a result, in GFLOP/s: the minimum traffic of its format, at the best read rate of a dot
    /// product.
    tenken::Limit limit_of(const Result& result) const {
        const std::uint64_t cache = places_[result.place]->cache_bytes();
        if (cache == 0) return tenken::Limit::unknown("the size of the last-level cache is not known");
        if (result.outcome.traffic_bytes < 4 * static_cast<double>(cache)) {
            return tenken::Limit::unknown("the matrix is below 4 x the last-level cache");
        }
        return tenken::Limit::known(best_dot_.at(result.place) * result.flops / result.outcome.traffic_bytes,
                                    "GFLOP/s", "measured: dot bandwidth in this run");
    }

    static std::vector<std::pair<std::string, double>> counts_of(const Result& result) {
        return {{"operations", result.flops}, {"bytes", result.outcome.traffic_bytes}};
    }

    void report(std::size_t place, tenken::Document& document) const {
        tenken::Metric metric;
        metric.subject = places_[place]->subject();
        metric.clock = places_[place]->clock();
        metric.unit = "GB/s";
        metric.name = "dot";
        metric.samples = dots_[place];
        document.add(metric, places_[place]->dot_limit());

        std::map<std::size_t, const Result*> best;
        std::map<std::size_t, double> own;
        std::map<std::size_t, double> vendor;
        for (const Result& result : results_) {
            if (result.place != place) continue;
            report_variant(result, metric, document);
            const double rate = result.median_rate();
            const Result*& leader = best[result.matrix];
            if (leader == nullptr || rate > leader->median_rate()) leader = &result;
            double& group = is_vendor(result.variant) ? vendor[result.matrix] : own[result.matrix];
            group = std::max(group, rate);
        }
        for (const auto& one : best) {
            metric.name = "best";
            metric.unit = "GFLOP/s";
            metric.statistic = tenken::Statistic::median;
            metric.at = coordinates(one.first);
            metric.samples = tenken::giga_per_second(one.second->flops, one.second->outcome.seconds);
            metric.counts = counts_of(*one.second);
            document.add(metric, limit_of(*one.second));
            metric.counts.clear();
            document.path("best." + abouts_[one.first].name + "." + metric.subject.text(),
                          one.second->variant);
            if (own.count(one.first) == 0 || vendor.count(one.first) == 0) continue;
            metric.name = "own_over_vendor";
            metric.unit = "1";
            metric.statistic = tenken::Statistic::total;
            metric.samples = {own.at(one.first) / vendor.at(one.first)};
            document.add(metric, tenken::Limit::unknown("a ratio of two kernels"));
        }
        report_set(best, metric, document);
    }

    std::vector<std::pair<std::string, tenken::Json>> coordinates(std::size_t matrix) const {
        return {{"matrix", tenken::Json(abouts_[matrix].name)},
                {"nnz", tenken::Json(abouts_[matrix].entries)}};
    }

    void report_variant(const Result& result, tenken::Metric& metric, tenken::Document& document) const {
        metric.at = coordinates(result.matrix);
        metric.at.emplace_back("variant", tenken::Json(result.variant));
        metric.name = "spmv";
        metric.unit = "GFLOP/s";
        metric.direction = tenken::Direction::higher;
        metric.statistic = tenken::Statistic::median;
        metric.samples = tenken::giga_per_second(result.flops, result.outcome.seconds);
        metric.counts = counts_of(result);
        document.add(metric, limit_of(result));
        metric.counts.clear();
        const double rate = result.median_rate() * result.outcome.traffic_bytes / result.flops;
        std::string text = number(rate) + " GB/s of minimum traffic (" +
                           number(result.outcome.traffic_bytes / 1e9) + " GB), " +
                           number(rate / best_dot_.at(result.place), "%.3f") +
                           " of the dot bandwidth, places an entry " + number(result.outcome.padding);
        if (!result.outcome.launch.empty()) text += "; " + result.outcome.launch;
        document.path(result.variant + "." + abouts_[result.matrix].name + "." + metric.subject.text(), text);

        metric.name = "prepare";
        metric.unit = "ms";
        metric.direction = tenken::Direction::lower;
        metric.statistic = tenken::Statistic::total;
        metric.samples = {result.outcome.prepare_seconds * 1e3};
        document.add(metric, tenken::Limit::unknown("time of the host and of transfers"));
        metric.direction = tenken::Direction::higher;
    }

    /// Over all matrices, and by decade of their entries.
    void report_set(const std::map<std::size_t, const Result*>& best, tenken::Metric& metric,
                    tenken::Document& document) const {
        if (best.size() < 2) return;
        std::map<int, std::vector<double>> decades;
        double minimum = 0;
        double logarithms = 0;
        for (const auto& one : best) {
            const double rate = one.second->median_rate();
            minimum = minimum == 0 ? rate : std::min(minimum, rate);
            logarithms += std::log(rate);
            const auto entries = static_cast<double>(abouts_[one.first].entries);
            decades[static_cast<int>(std::floor(std::log10(entries)))].push_back(std::log(rate));
        }
        const tenken::Limit none = tenken::Limit::unknown("a mean over matrices");
        metric.unit = "GFLOP/s";
        metric.statistic = tenken::Statistic::total;
        const auto add = [&](const char* name, double value) {
            metric.name = name;
            metric.samples = {value};
            document.add(metric, none);
        };
        metric.at = {};
        add("geomean", std::exp(logarithms / static_cast<double>(best.size())));
        add("worst", minimum);
        for (const auto& decade : decades) {
            double sum = 0;
            for (double logarithm : decade.second) sum += logarithm;
            metric.at = {{"nnz_decade", tenken::Json(std::int64_t{decade.first})}};
            add("geomean_by_size", std::exp(sum / static_cast<double>(decade.second.size())));
        }
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
    std::vector<std::vector<double>> dots_;   ///< by place, of the first time
    std::map<std::size_t, double> best_dot_;  ///< by place
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

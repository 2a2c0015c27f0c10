// Faults that can be injected: classes, and the phases in which each has a meaning.
#pragma once

#include <string>
#include <vector>

namespace burn {

enum class Fault {
    none,
    one_bit,
    several_bits,
    aligned_run,
    input_bit,
    accumulator_bit,
    stuck_sm,
    stuck_operand,
    stuck_bit,
    lost_tile,
    stale_tile,
    wrong_copy
};

struct FaultClass {
    Fault fault;
    const char* name;
    const char* help;
};

constexpr FaultClass fault_classes[] = {
    {Fault::one_bit, "one-bit", "one bit of one stored word"},
    {Fault::several_bits, "several-bits", "two to eight bits of one stored word"},
    {Fault::aligned_run, "aligned-run", "128 consecutive, aligned bytes, as one access of a warp"},
    {Fault::input_bit, "input-bit", "one bit of an operand"},
    {Fault::accumulator_bit, "accumulator-bit", "one bit of a sum in the middle of a product"},
    {Fault::stuck_sm, "stuck-sm", "one bit of every sum of some multiprocessors is always 1"},
    {Fault::stuck_operand, "stuck-operand", "a sum is wrong wherever an operand has a certain value"},
    {Fault::stuck_bit, "stuck-bit", "one bit of a word of memory is always 1 or always 0"},
    {Fault::lost_tile, "lost-tile",
     "a tile, or a line of memory, that was not written and has what was there before"},
    {Fault::stale_tile, "stale-tile", "a tile, or 4 KiB, of an earlier step"},
    {Fault::wrong_copy, "wrong-copy", "4 KiB of another address"},
};

/// By the word of --inject-fault; none for another word.
inline Fault fault_named(const std::string& name) {
    for (const FaultClass& one : fault_classes)
        if (name == one.name) return one.fault;
    return Fault::none;
}
inline std::string name_of(Fault fault) {
    for (const FaultClass& one : fault_classes)
        if (fault == one.fault) return one.name;
    return "none";
}

enum class Kind { product, memory, copies, peer, all_reduce, chain, steps };

/// The classes that have a meaning in a phase. In the walking pattern, which repeats every 512 bytes, wrong
/// addresses cannot be seen; the other patterns test addresses.
inline std::vector<Fault> faults_in(Kind kind, bool walking) {
    switch (kind) {
        case Kind::product:
        case Kind::steps:
            return {Fault::one_bit,       Fault::several_bits,    Fault::aligned_run,
                    Fault::input_bit,     Fault::accumulator_bit, Fault::stuck_sm,
                    Fault::stuck_operand, Fault::lost_tile,       Fault::stale_tile};
        case Kind::memory:
            if (walking)
                return {Fault::one_bit,   Fault::several_bits, Fault::aligned_run,
                        Fault::stuck_bit, Fault::lost_tile,    Fault::stale_tile};
            return {Fault::one_bit,   Fault::several_bits, Fault::aligned_run, Fault::stuck_bit,
                    Fault::lost_tile, Fault::stale_tile,   Fault::wrong_copy};
        case Kind::copies:
        case Kind::peer:
            return {Fault::one_bit,   Fault::several_bits, Fault::aligned_run,
                    Fault::lost_tile, Fault::stale_tile,   Fault::wrong_copy};
        case Kind::all_reduce:
            return {Fault::one_bit, Fault::several_bits, Fault::aligned_run};
        case Kind::chain:
            return {Fault::one_bit, Fault::several_bits, Fault::aligned_run, Fault::lost_tile,
                    Fault::stuck_operand};
    }
    return {};
}

/// Injected faults of one class in one phase.
struct Study {
    double injected = 0;
    double masked = 0;  ///< changed no stored bit of a result
    double found = 0;
    double false_alarms = 0;  ///< units without a fault that were reported as wrong
};

}  // namespace burn

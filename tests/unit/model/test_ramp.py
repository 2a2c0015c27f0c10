"""Where a series of rates reaches its plateau, with numbers written by hand."""

from tenken.model.ramp import ramp_of, seen


def test_a_flat_series_has_no_ramp() -> None:
    assert ramp_of([3000.0] * 20) == (1, 3000, 3000) and not seen([3000.0] * 20)
    assert ramp_of([5.0]) == (1, 5, 5)


def test_a_ramp_of_migration_by_parts() -> None:
    rates = [400 + 52.0 * at for at in range(50)] + [3000.0] * 150
    # 0.95 x 3000 = 2850 is reached at 400 + 52 i, i = 48: the 49th repetition
    assert ramp_of(rates) == (49, 400 + 52 * 23.5, 3000) and seen(rates)


def test_a_plateau_begins_with_five_rates_in_a_row() -> None:
    # a single fast one within the slope; the plateau of 100 begins with the eighth
    rates = [10.0, 20, 99, 30, 40, 50, 60, 100, 100, 96, 100, 100, 100, 100, 100, 100]
    assert ramp_of(rates) == (8, 40, 100)
    # the plateau is the last quarter: four of sixteen
    assert ramp_of([50.0] * 8 + [60.0] * 4 + [100.0] * 4)[2] == 100


def test_a_dip_on_the_plateau_is_no_ramp() -> None:
    rates = [3000.0] * 40
    rates[0], rates[20] = 15, 100
    assert ramp_of(rates) == (2, 15, 3000) and not seen(rates)

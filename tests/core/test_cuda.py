"""How kernels of pomp are launched on a GPU, as far as that can be seen without one."""

import warnings

from pomp.core.cuda import without_advice

ADVICE = (
    "\x1b[1mGrid size 1 will likely result in GPU under-utilization due to low occupancy.\x1b[0m"
)
OTHER = "the device is hot"


def test_few_blocks_are_not_warned_of_and_all_else_is():
    configured = []

    def configure(*place):
        configured.append(place)
        warnings.warn(ADVICE, stacklevel=1)
        warnings.warn(OTHER, stacklevel=1)
        return place

    def warnings_of(call):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert call(1, 128, 0) == (1, 128, 0)
        return [str(one.message) for one in told]

    quiet = without_advice(configure)
    assert warnings_of(configure) == [ADVICE, OTHER]
    assert warnings_of(quiet) == [OTHER]
    assert warnings_of(quiet) == []  # prepared before
    assert configured == [(1, 128, 0)] * 2

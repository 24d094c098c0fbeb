"""Settings as users give them in Python."""

import numpy as np
import pytest

from cvpo.errors import BadValue
from cvpo.presets import make_config


def test_numbers_of_numpy_and_whole_floats_are_accepted_and_become_pythons():
    given = {"batch_size": np.int64(64), "gamma": np.float32(0.5), "retrace": np.bool_(True), "replay_capacity": 2e5}
    config = make_config("cvpo", overrides=given | {"hidden": np.array([8, 9])})
    assert (config.batch_size, config.gamma, config.retrace, config.hidden) == (64, 0.5, True, (8, 9))
    assert config.replay_capacity == 200_000
    kinds = [type(getattr(config, name)) for name in given]
    assert kinds == [int, float, bool, int] and {type(width) for width in config.hidden} == {int}


def test_the_reference_differs_from_the_papers_table_where_the_published_code_does():
    def difference(name):
        paper, reference = vars(make_config(name, "paper")), vars(make_config(name, "reference"))
        return {key: reference[key] for key in paper if paper[key] != reference[key]}

    assert difference("cvpo") == {
        "replay_capacity": 80_000, "kl_scale": 1e-3, "max_dual": 3.2, "max_dual_scale": 320.0, "max_gradient_norm": 0.01
    }  # fmt: skip
    sac = difference("sac-lag")
    assert sac["replay_capacity"] == 20_000 and sac["multiplier_ki"] == 0.78
    assert (sac["automatic_temperature"], sac["temperature"]) == (False, 0.0085)
    assert difference("td3") == {"replay_capacity": 20_000, "random_epochs": 0}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"batch_size": 64.5}, r"^batch_size must be int, got 64.5$"),
        ({"batch_size": "64"}, r"^batch_size must be int, got '64'$"),
        ({"batch_size": True}, r"^batch_size must be int, got True$"),
        ({"retrace": 1}, r"^retrace must be bool, got 1$"),
        ({"hidden": np.array([[8]])}, r"^hidden must be int, got \[8\]$"),
        ({"gama": 0.9}, r"^cvpo has no setting 'gama'; did you mean 'gamma'"),
    ],
)
def test_other_values_are_refused_by_name(overrides, message):
    with pytest.raises(BadValue, match=message):
        make_config("cvpo", overrides=overrides)

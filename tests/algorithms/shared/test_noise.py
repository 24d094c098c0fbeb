"""The noise that actions are made of."""

import jax
import numpy as np
import pytest
from scipy import stats

from cvpo.algorithms.base import Spec
from cvpo.algorithms.shared.noise import colored_noise, draw_noise

KEY = jax.random.key(0)


@pytest.mark.parametrize("color", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("length", [1, 2, 7, 100])
def test_each_number_alone_is_standard_normal(color, length):
    noise = np.asarray(colored_noise(KEY, (length, 4_000), color))
    for step in {0, length // 2, length - 1}:
        assert stats.kstest(noise[step], stats.norm.cdf).pvalue > 0.001


@pytest.mark.parametrize("color", [0.0, 0.5, 1.0])
def test_the_power_falls_with_the_frequency_as_its_color_says(color):
    noise = np.asarray(colored_noise(KEY, (256, 2_000), color))
    power = (np.abs(np.fft.rfft(noise, axis=0)) ** 2).mean(1)[1:-1]
    slope = np.polyfit(np.log(np.arange(1, len(power) + 1)), np.log(power), 1)[0]
    assert slope == pytest.approx(-color, abs=0.02)


def test_noise_of_different_environments_and_components_is_independent():
    noise = np.asarray(draw_noise(Spec(3, 2, False, (), 500), KEY, (500, 400), 0.5))
    assert noise.shape == (500, 400, 2)
    assert abs((noise[:, ::2] * noise[:, 1::2]).mean()) < 0.02
    assert abs((noise[..., 0] * noise[..., 1]).mean()) < 0.02


@pytest.mark.parametrize("spec", [Spec(3, 4, True, (), 9), Spec(3, 5, False, (), 9, choices=(2, 3))])
def test_choices_are_drawn_step_by_step(spec):
    noise = np.asarray(draw_noise(spec, KEY, (9, 1_000), 0.5))
    assert stats.kstest(noise.ravel(), stats.gumbel_r.cdf).pvalue > 0.001
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.02

"""What an update of CVPO writes to the run's log: the one place that names its results (docs/metrics.md)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Scalars, UpdateMetrics
from cvpo.algorithms.cvpo.cost_control import CostControl, Request
from cvpo.algorithms.cvpo.estep.candidates import Candidates
from cvpo.algorithms.cvpo.estep.solve import EStep
from cvpo.algorithms.cvpo.heads import Head
from cvpo.algorithms.cvpo.mstep import MStep
from cvpo.algorithms.offpolicy.critics import Units
from cvpo.metric_names import per_cost


def update_metrics(
    head: Head,
    critics: Scalars,
    control: CostControl,
    request: Request,
    units: Units,
    candidates: Candidates,
    compared: Candidates,
    estep: EStep,
    weights: jax.Array,
    mstep: MStep,
) -> UpdateMetrics:
    """In the units of rewards and costs; the E-step and its candidates are in those of the critics."""
    reward_scale, cost_scales = units.scale[0], units.scale[1:]
    solution_reward = units.level[0] + reward_scale * (weights * candidates.q_reward).sum(-1).mean()
    eta = reward_scale * estep.eta.mean()
    # what the E-step compared may have been differences from the policy's own value
    threshold = request.threshold + (candidates.policy_costs - compared.policy_costs)
    multipliers = jnp.atleast_2d(estep.multipliers).mean(0)
    mean = critics | {
        "critic/reward_value": units.level[0] + reward_scale * candidates.policy_reward,
        "estep/eta": eta,
        "estep/feasible": estep.feasible.mean(),
        "estep/kl": estep.kl.mean(),
        "estep/iterations": estep.iterations.mean(),
        "estep/elbo": solution_reward - eta * estep.kl.mean(),
        "mstep/likelihood": mstep.likelihood,
        "mstep/step_fraction": mstep.step_fraction,
        "policy/entropy": head.entropy(candidates.old).mean(),
    }
    for i, name in enumerate(head.kl_names):
        mean |= {
            f"mstep/kl_{name}": mstep.kls[i],
            f"mstep/dual_{name}": mstep.policy.duals[i],
            f"mstep/outside_{name}": mstep.outside[i].astype(jnp.float32),
        }
    costs = {
        "cost_control/measured_cost": control.measured_cost,
        "cost_control/requested_reduction": request.fraction,
        "cost_control/integral": control.integral,
        "estep/multiplier": multipliers * reward_scale / jnp.where(cost_scales > 0, cost_scales, 1.0),
        "estep/cost_policy": units.level[1:] + cost_scales * candidates.policy_costs,
        "estep/cost_solution": units.level[1:] + cost_scales * (weights * candidates.q_costs).sum(-1).mean(-1),
        "estep/threshold": units.level[1:] + cost_scales * threshold,
    }
    for name, values in costs.items():
        mean |= per_cost(name, values)
    # A certificate is as good as its worst case.
    worst = {"estep/kkt_residual": estep.kkt_residual.max(), "estep/duality_gap": estep.duality_gap.max()}
    return UpdateMetrics(mean, worst)

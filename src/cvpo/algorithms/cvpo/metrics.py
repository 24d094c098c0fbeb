"""What an update of CVPO writes to the run's log: the one place that names its results (docs/metrics.md)."""

from __future__ import annotations

import jax.numpy as jnp

from cvpo.algorithms.base import Scalars, UpdateMetrics
from cvpo.algorithms.cvpo.cost_control import CostControl, Request
from cvpo.algorithms.cvpo.estep.candidates import Candidates
from cvpo.algorithms.cvpo.estep.solve import EStep
from cvpo.algorithms.cvpo.heads import Head
from cvpo.algorithms.cvpo.mstep import MStep
from cvpo.metric_names import per_cost


def update_metrics(
    head: Head,
    critics: Scalars,
    control: CostControl,
    request: Request,
    candidates: Candidates,
    estep: EStep,
    mstep: MStep,
) -> UpdateMetrics:
    solution_reward = (estep.weights * candidates.q_reward).sum(-1).mean()
    mean = critics | {
        "critic/reward_value": candidates.policy_reward,
        "estep/eta": estep.eta.mean(),
        "estep/feasible": estep.feasible.mean(),
        "estep/kl": estep.kl.mean(),
        "estep/iterations": estep.iterations.mean(),
        "estep/elbo": solution_reward - estep.eta.mean() * estep.kl.mean(),
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
        "estep/multiplier": jnp.atleast_2d(estep.multipliers).mean(0),
        "estep/cost_policy": candidates.policy_costs,
        "estep/cost_solution": (estep.weights * candidates.q_costs).sum(-1).mean(-1),
        "estep/threshold": request.threshold,
    }
    for name, values in costs.items():
        mean |= per_cost(name, values)
    # A certificate is as good as its worst case.
    worst = {"estep/kkt_residual": estep.kkt_residual.max(), "estep/duality_gap": estep.duality_gap.max()}
    return UpdateMetrics(mean, worst)

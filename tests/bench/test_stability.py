from bench.stability import indices


def test_indices_by_hand() -> None:
    rows = [
        {"step": 1, "reward/mean": 0.2, "actor/entropy": 1.0, "completion/length_mean": 10.0, "actor/kl_max": 0.1},
        {"step": 2, "reward/mean": 0.6, "actor/entropy": 0.5, "completion/length_mean": 12.0, "actor/kl_max": 0.4},
        {"step": 3, "reward/mean": 0.3, "actor/entropy": 0.09, "completion/length_mean": 15.0, "actor/kl_max": 0.2},
    ]
    found = indices(rows, diverged_at=4)
    assert found == {
        "nonfinite_steps": 1.0,
        "divergence_step": 4,
        "kl_max": 0.4,
        "entropy_kept": 0.09,
        "entropy_collapse_step": 3,
        "length_drift": 1.5,
        "reward_drawdown": 0.3,
    }


def test_what_is_not_known_is_absent() -> None:
    assert indices([]) == {"nonfinite_steps": 0.0}
    assert indices([{"step": 1, "reward/mean": 0.5}]) == {"nonfinite_steps": 0.0, "reward_drawdown": 0.0}

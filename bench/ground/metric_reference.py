"""Every metric a run can log: its unit, its definition, and what a mean of it is taken over. A test completes it."""

from dataclasses import dataclass

Over = str  # "token", "completion", "prompt", "update", "step": the weight of a mean


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One definition, the same for every algorithm. A name ending in /* stands for a family."""

    name: str
    unit: str
    over: Over
    definition: str


def _table(text: str) -> tuple[Metric, ...]:
    rows = (line.split("|") for line in text.strip().splitlines())
    return tuple(Metric(name=n.strip(), unit=u.strip(), over=o.strip(), definition=d.strip()) for n, u, o, d in rows)


METRICS = _table(
    """
    reward/mean | reward | completion | The reward of all that was generated in the step, by rules, a learned model or both, before any shaping by the algorithm.
    reward/std | reward | completion | Its sample standard deviation.
    reward/max | reward | step | Its largest value.
    reward/rules_mean | reward | completion | The task's own reward, before its weight. With a reward model only.
    reward/model_mean | score | completion | The reward model's score as it gives it, before mean, std and weight.
    reward/model_std | score | completion | Its sample standard deviation.
    reward/by_kind/* | reward | completion | The reward of the prompts of one kind. Where a task has kinds of prompt (`kind`) only.
    reward/model_by_kind/* | score | completion | The model's score of the same, before its weight.
    reward/gold_by_kind/* | reward | completion | What an answer is worth by a known rule that is not trained on.
    reward/correct_frac | share | completion | Completions judged right, whatever the reward mixes in.
    reward/shaped_frac | share | completion | Completions trained on whose reward the algorithm changed (an overlong punishment).
    reward/informative_frac | share | prompt | Groups with right and with wrong completions. Group methods only.
    reward/informative_predicted_frac | share | prompt | The same if all prompts were right at the step's one rate p: 1 - p^G - (1-p)^G; less is measured where prompts differ in difficulty.
    reward/distinct_correct | completions | prompt | Different right completions of a group, by their text, over groups that have one.
    reward/solve_frac | share | prompt | Prompts with at least one right completion. Group methods only.
    reward/frac_all_correct_groups | share | prompt | Groups whose every completion is right.
    reward/frac_all_wrong_groups | share | prompt | Groups without a right completion.
    reward/frac_zero_std_groups | share | prompt | Groups of equal rewards: no signal for a group-relative advantage.
    prompt/length_mean | tokens | completion | Prompt, chat template included.
    prompt/length_max | tokens | step | The longest.
    prompt/repeated_frac | share | prompt | Prompts that the step had drawn before: with few problems, steps of many prompts repeat more.
    completion/length_mean | tokens | completion | Generated tokens, the end token included.
    completion/length_std | tokens | completion | Its sample standard deviation.
    completion/length_max | tokens | step | The longest.
    completion/truncated_frac | share | completion | Cut at the generation budget: no end token.
    completion/format_frac | share | completion | Well-formed by the task's rule. Absent where the task judges no format.
    completion/language_frac | share | completion | Words of the thought that are of the language of the question. Absent where there is no word.
    verifier/parse_fail_frac | share | completion | No answer could be read.
    verifier/timeout_frac | share | completion | The verdict took longer than its limit and counts as wrong.
    verifier/error_frac | share | completion | No verdict by rule, for any reason (unread and timed out included).
    verifier/rule/* | share | completion | Verdicts reached by this rule of docs/verifier.md.
    behaviour/exact | 0 or 1 | step | 1 where the task reads the behaviours below exactly, from equations (countdown); 0 where word lists do, which docs/pipeline.md gives with their precision and recall.
    behaviour/right/* | count | completion | Signs of this behaviour in a right completion: verification, backtracking, subgoals, backward_chaining. Absent where none is right.
    behaviour/right_per_100_tokens/* | count | token | The same over 100 generated tokens of right completions: length alone adds to the count.
    behaviour/wrong/* | count | completion | The same in a wrong completion.
    behaviour/wrong_per_100_tokens/* | count | token | The same over 100 generated tokens of wrong completions.
    rollout/mismatch_kl | nats | token | k3 estimate of KL(sampler, trainer before the update), over the full vocabulary: arithmetic at equal weights, and staleness under --rollout-lag.
    rollout/mismatch_max | nats | step | Largest difference between the two log-probs of a token.
    rollout/prob_error_mean | probability | token | Token probability error: mean absolute difference between the two probabilities of a sampled token.
    rollout/prob_error_max | probability | step | The largest such difference.
    rollout/truncation_gap_mean | nats | token | Log-prob after top-p and top-k less that over the full vocabulary; 0 without them.
    actor/loss | loss | update | What was minimised. Near 0 on-policy by construction: no measure of progress.
    actor/pg_loss | loss | token | Its policy-gradient term.
    actor/positive_nll | nats | token | -log pi of right completions, the positive-example term (VAPO).
    actor/advantage_within_std | reward | completion | Spread of the advantage over a completion's tokens; 0 where all tokens share one.
    actor/ratio | ratio | token | pi / pi_old, as the method defines it.
    actor/clip_frac | share | token | Tokens whose gradient the clip removed.
    actor/dual_clip_frac | share | token | Tokens on the dual clip's bound.
    actor/dropped_frac | share | token | Tokens that a filter left without a gradient: the correction's mask, or SAO's on the ratio to the sampler.
    actor/kl | nats | token | k3 estimate of KL(pi_old, pi), mean over the step's updates.
    actor/kl_max | nats | step | The largest of any update.
    actor/kl_ref | nats | token | k3 estimate of KL(pi, reference). Absent where no reference is held.
    actor/reference_renewed | 0 or 1 | step | Whether the reference became the policy in this step. Absent where it never does.
    actor/entropy | nats | token | Of the tempered distribution at each generated token.
    actor/grad_norm | norm | update | Before clipping.
    actor/grad_norm_max | norm | step | The largest of any update.
    critic/loss | loss | update | What the critic minimised: a mean over tokens.
    critic/vf_loss | loss | token | The value loss, clip included.
    critic/grad_norm | norm | update | Before clipping.
    critic/grad_norm_max | norm | step | The largest of any update.
    critic/explained_variance | 1 | token | 1 - Var(return - value) / Var(return), before the update.
    critic/explained_beyond_position | 1 | token | 1 - squared error of the value over that of the mean return at each position, before the update; negative where the position alone tells more.
    critic/value_mean | reward | token | Before the update.
    critic/return_mean | reward | token | The regression target.
    critic/error_at/* | reward | token | Mean absolute difference of value and the reward still to come, by tenths of the completion.
    time/sync_s | s | step | Handing the weights to the sampler.
    time/rollout_s | s | step | Generation, all rounds.
    time/score_s | s | step | Verdicts.
    time/reward_model_s | s | step | Scores by a learned reward model; absent without one.
    time/logprobs_s | s | step | Old log-probs, reference log-probs and values.
    time/update_s | s | step | Advantages, forward, backward, optimizer.
    time/other_s | s | step | The step less the phases above.
    time/step_s | s | step | The whole step; evaluation and checkpoints apart.
    time/load_s | s | run | Loading the models (in provenance.json).
    time/evaluate_s | s | evaluation | One evaluation (in evals.jsonl); never part of a step.
    profile/forward_s | s | step | Forward passes of the update, with --profile.
    profile/backward_s | s | step | Backward passes, with --profile.
    profile/optimizer_s | s | step | Clipping and stepping, with --profile.
    perf/generated_tokens_per_s | tokens/s | step | Generated tokens over the rollout's time; prompts and padding not counted.
    perf/trained_tokens_per_s | tokens/s | step | Generated tokens that were trained on over the update's time.
    perf/load | processes | step | Processes that wanted a core over the last minute, for each core that there is: above 1 they wait for one another.
    perf/mfu | share | step | Counted operations over the step's time and the peak of all devices (measured, in provenance.json).
    perf/mfu/* | share | step | The same of one phase.
    memory/policy_gib | GiB | step | Weights and buffers, from storages.
    memory/reference_gib | GiB | step | Weights and buffers of the frozen reference. Absent where it is the policy without its adapters.
    memory/reference_host_gib | GiB | step | The same of a reference that is off-loaded: in the host's memory, no part of roles_gib.
    memory/critic_gib | GiB | step | Weights and buffers of the critic, less what it shares with the policy.
    memory/reward_model_gib | GiB | step | Weights and buffers of a learned reward model.
    memory/gradients_gib | GiB | step | The larger of the policy's and the critic's, which never exist at once.
    memory/optimizer_gib | GiB | step | States of every optimizer.
    memory/activations_gib | GiB | step | What autograd keeps for the backward pass of the largest micro-batch, weights apart. Absent under ZeRO-3.
    memory/rollout_weights_gib | GiB | run | The sampler's own copy of the policy; absent where it generates from the modules being trained.
    memory/kv_cache_gib | GiB | run | The largest key-value cache so far.
    memory/roles_gib | GiB | step | Sum of the roles above.
    memory/unexplained_gib | GiB | step | The update's peak less the roles that exist in it: libraries, data, allocator, temporaries.
    memory/peak_gib/* | GiB | step | The driver's peak of a phase: PSS of the process tree on a CPU, the device on a GPU.
    memory/torch_peak_gib/* | GiB | step | Torch's own counter of the same phase, on a GPU.
    data/prompts | prompts | cumulative | Prompts generated for.
    data/samples_generated | completions | cumulative | Those of dropped groups included.
    data/samples_trained | completions | cumulative | Those trained on, each once.
    data/tokens_generated | tokens | cumulative | Those of dropped groups included.
    data/tokens_trained | tokens | cumulative | Those of completions trained on.
    selection/length_shift | tokens | prompt | Mean length of the groups trained on less that of all generated. Absent where all are trained on.
    selection/length_z | 1 | step | Welch's z of lengths, trained-on groups against those left out.
    selection/correct_shift | share | prompt | Share of right completions in the groups trained on less that of all generated.
    selection/correct_z | 1 | step | Welch's z of right completions, trained-on groups against those left out.
    data/discarded_signal_frac | share | completion | Completions generated in the step whose group the algorithm kept, and which the batch had no room for.
    data/updates | updates | cumulative | Policy updates.
    cost/flops | operations | cumulative | Counted work, formulas in bench/models/flops.py; critic, reference, reward model and dropped groups included.
    cost/device_s | s | cumulative | Seconds of steps, times the devices (the processes) that they ran on.
    """  # noqa: E501 - one definition a line
)


def find(name: str) -> Metric | None:
    """The definition of a logged name."""
    for metric in METRICS:
        if metric.name == name or (metric.name.endswith("/*") and name.rpartition("/")[0] == metric.name[:-2]):
            return metric
    return None

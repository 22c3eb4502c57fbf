"""Every setting of the harness, defined once: flags, TOML files, help and records come from these classes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from algorithms.core import Algorithm
from bench.ground.budget import Budget
from tasks.core import Source, Split, Task

ASSETS = Path(__file__).parent / "assets"
EMBEDDED = "embedded"


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How completions are drawn."""

    max_new_tokens: int | None = None
    """Generation budget L of a completion. None: 64 for an embedded model, 512 for any other."""
    temperature: float = 1.0
    """Divisor of the logits, in the sampler and in every log-prob pass. 0 is greedy (evaluation only)."""
    top_p: float = 1.0
    """Probability that the nucleus reaches, the smallest set of tokens that are drawn from."""
    top_k: int = 0
    """Number of likeliest tokens that are drawn from; 0 keeps all."""

    @property
    def generation_budget(self) -> int:
        """The most tokens of a completion, L, once resolved."""
        assert self.max_new_tokens is not None, "settings are resolved before they are used"
        return self.max_new_tokens


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW for the policy."""

    lr: float | None = None
    """Peak learning rate of the policy. None: 0.0002 for an embedded model, 1e-06 for any other."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay rates of AdamW's two moments."""
    eps: float = 1e-8
    """Epsilon of AdamW, policy and critic alike: what the root of the second moment is added to."""
    weight_decay: float = 0.0
    """Weight decay, decoupled from the gradient."""
    grad_clip: float = 1.0
    """Largest gradient norm of an update."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Shape of the learning rate over the budget, after warm-up."""
    warmup_steps: int = 3
    """Steps of samples_per_step generated samples, over which the learning rate rises linearly to the peak."""


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """The critic's own pass, read only where the algorithm needs values."""

    lr: float | None = None
    """Peak learning rate of the critic. None: 0.001 for an embedded model, 1e-05 for any other."""
    num_epochs: int = 1
    """Passes over each batch of rollouts."""
    num_minibatches: int = 2
    """Optimizer updates in each pass."""
    grad_clip: float = 1.0
    """Largest gradient norm of an update."""
    warmup_steps: int = 3
    """Length of the critic's warm-up, as of the policy's."""
    pretrain_steps: int | None = None
    """First steps, in which only the critic learns; the samples of these steps count. None: the method's own number."""


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Low-rank adapters in place of every weight (arXiv:2106.09685). An adapter as --model brings its own settings."""

    rank: int = 0
    """Rank of the adapters; 0 trains every weight."""
    alpha: float = 32.0
    """Scale of the adapters: their product is multiplied by alpha / rank."""
    targets: tuple[str, ...] = ()
    """Names of the layers that get adapters, such as q_proj v_proj. None given: every linear one but the output's."""


@dataclass(frozen=True, kw_only=True)
class RewardModelConfig:
    """A learned reward: weight * (score - mean) / std + rules_weight * the task's own. `correct` stays the task's."""

    path: str | None = None
    """Sequence classifier with one label, a folder or a hub id; `--reward-model` for short. None: no model."""
    weight: float = 1.0
    """Weight of the model's score in the reward."""
    rules_weight: float = 0.0
    """Weight of the task's reward beside a model's; without a model the task's reward is all there is."""
    mean: float = 0.0
    """Mean of the model's scores, measured beforehand, which is subtracted from each."""
    std: float = 1.0
    """Spread of the model's scores, measured beforehand, by which each is divided."""
    kinds: tuple[str, ...] = ()
    """Kinds of prompt, a problem's `kind`, that the model judges; others keep the task's. None given: all."""
    reads: Literal["completion", "summary"] = "completion"
    """What the model reads: the whole completion, or what follows its thought, the last `</think>`."""


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Where and how the models run."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the models. auto: a GPU where there is one."""
    dtype: Literal["float32", "bfloat16"] | None = None
    """Arithmetic of the forward pass; master weights are float32 in either case. None: the preset's."""
    micro_batch_tokens: int | None = None
    """Most padded tokens of one forward and backward pass. None: the preset's."""
    rollout_batch_size: int = 256
    """Most completions generated at once."""
    share_prompts: Literal["auto", "always", "never"] = "auto"
    """Pass a prompt once for all of its completions. auto: where that pays and can be: docs/engines.md."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass, to save memory."""
    rollout: Literal["hf", "vllm"] = "hf"
    """Engine that generates; `--rollout` for short."""
    rollout_memory: float = 0.4
    """Share of the device's memory that vLLM takes, for its weights and its key-value cache, while it generates."""
    tensor_parallel: int = 1
    """GPUs that vLLM splits the policy over."""
    rollout_tolerance: float | None = None
    """Mean difference (nats a token) of a sampler's log-probs from the trainer's, at equal weights, above which a run
    stops. None: 0.1 in bfloat16; in float32 1e-4 for hf, 1e-3 for an engine with kernels of its own."""
    train: Literal["torch", "deepspeed"] | None = None
    """Engine that trains; `--engine` for short. None: deepspeed for several processes, else the preset's."""
    zero: Literal[0, 1, 2, 3] | None = None
    """What deepspeed shares out, `--zero` for short: 1 optimizer states, 2 gradients too, 3 weights too."""
    offload: tuple[Literal["optimizer", "params", "reference"], ...] = ()
    """What waits in the host's memory while it is not used; `--offload` for short. optimizer, params: deepspeed's."""

    @property
    def tokens_at_once(self) -> int:
        """Padded tokens of one forward and backward pass, once resolved."""
        assert self.micro_batch_tokens is not None, "settings are resolved before they are used"
        return self.micro_batch_tokens

    @property
    def zero_stage(self) -> int:
        """ZeRO's stage, once resolved."""
        assert self.zero is not None, "settings are resolved before they are used"
        return self.zero

    @property
    def shards_weights(self) -> bool:
        """Whether the model being trained lies in shards, from which nothing can generate."""
        return self.train == "deepspeed" and self.zero_stage == 3


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """Evaluation: its own sampling, the same for every arm, never timed as training."""

    limit: int | None = 500
    """Number of problems of the test split, the first ones. None: all."""
    num_samples: int = 4
    """Completions sampled for each problem, for sampled accuracy, pass@k and maj@k; 0 evaluates greedily only."""
    temperature: float = 1.0
    """Temperature of the sampled completions."""
    top_p: float = 1.0
    """Nucleus of the sampled completions: the probability that it reaches."""
    every: int = 0
    """Steps between evaluations on the validation split; 0 makes none."""
    validation_limit: int = 200
    """Number of problems of the validation split, the first ones."""
    validation_samples: int | None = None
    """Number of sampled completions a problem of the validation split. None: num_samples."""
    checkpoint: Literal["last", "best"] = "last"
    """Which weights the final test evaluation reads: the last, or the best on validation."""
    seed: int = 20_000
    """Seed of the sampled completions, equal for every arm and every seed of a run."""

    def samples_on(self, split: Split) -> int:
        """Sampled completions a problem."""
        given = self.validation_samples if split == "validation" else None
        return self.num_samples if given is None else given


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Train one model on one task by one algorithm."""

    algo: Algorithm
    task: Task
    model: str = "embedded"
    """Model to train: `embedded` (our small one for this task), a Hugging Face id, a folder, or `smollm2-135m`."""
    seed: int = 0
    """Seed of the prompt order, the samples and the minibatches of the run."""
    budget: str = "steps=24"
    """What the run may use: steps=N, samples=N, tokens=N (generated), updates=N, flops=N or seconds=N."""
    samples_per_step: int = 256
    """Completions of one step, equal for every algorithm compared."""
    rollout_lag: int = 0
    """Steps by which the sampler's weights lag behind the policy's, as in asynchronous training: docs/rollouts.md."""
    truncated_is_wrong: bool = False
    """A completion cut off at the generation budget is wrong in training, and its reward is 0."""
    reward: str | None = None
    """Function `pkg.mod:name` of (problem, completion) whose value replaces the task's reward, not its verdict."""
    reward_model: RewardModelConfig = field(default_factory=RewardModelConfig)
    safety_model: RewardModelConfig = field(default_factory=RewardModelConfig)  # a second one, for prompts of its kinds
    reference_updates: int = 0
    """Policy updates after which the reference becomes the policy as it then is, again and again; 0 keeps the first."""
    data: Path | None = None
    """File, or folder of train.jsonl and test.jsonl, in the data set's official format."""
    source: Literal["auto", "procedural", "path", "hub"] = "auto"
    """Where problems come from. auto: --data where given, else procedural for an embedded model, else $BENCH_DATA,
    else the hub."""
    long_prompts: Literal["refuse", "drop"] = "refuse"
    """What happens to prompts longer than max_prompt_tokens; dropped ones are counted, none is ever cut."""
    max_prompt_tokens: int = 1024
    """Longest prompt, chat template included."""
    preset: str = "auto"
    """Hardware configuration, by name, whose settings `engine` starts from. auto: what is here."""
    sampling: Sampling = field(default_factory=Sampling)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    name: str | None = None
    """Name of the arm in tables. None: the algorithm's."""
    out: Path = Path("results/runs")
    """Folder in which the run's own folder is made."""
    checkpoint_every: int = 10
    """Steps between checkpoints; one is always written at the end."""
    completions_per_step: int = 4
    """Completions of each step written to completions.jsonl."""
    track: Literal["none", "tensorboard", "wandb"] = "none"
    """Send the metrics to a tracker as well."""
    profile: bool = False
    """Time forward, backward and optimizer apart, and print each phase's share at the end."""
    quiet: bool = False
    """Print the closing lines only."""

    @property
    def parsed_budget(self) -> Budget:
        """The budget, read.

        Raises:
            UserError: it reads otherwise than kind=N.
        """
        return Budget.parse(self.budget)


SOURCES: dict[str, Source] = {"procedural": "procedural", "path": "path", "hub": "hub"}

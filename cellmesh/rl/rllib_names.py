"""RLlib's names of metrics and options that mean the same, and ours. It imports nothing."""

from __future__ import annotations

# RLlib's name -> ours.
METRICS = {
    "episode_reward_mean": "episode_return_mean",
    "episode_reward_min": "episode_return_min",
    "episode_reward_max": "episode_return_max",
    "episode_len_mean": "episode_length_mean",
    "env_runners/episode_return_mean": "episode_return_mean",
    "num_env_steps_sampled_lifetime": "timesteps_total",
}
OPTIONS = {
    "lambda": "gae_lambda",
    "lambda_": "gae_lambda",
    "clip_param": "clip",
    "num_sgd_iter": "n_epochs",
    "num_epochs": "n_epochs",
    "sgd_batchsize": "minibatch_size",
    "sgd_minibatch_size": "minibatch_size",
    "sgd_stepsize": "lr",
    "stepsize": "lr",
    "noise_stdev": "sigma",
    "l2_coeff": "weight_decay",
    "vf_loss_coeff": "value_coefficient",
    "entropy_coeff": "entropy_coefficient",
    "grad_clip": "max_grad_norm",
    "num_env_runners": "num_workers",
    "num_rollout_workers": "num_workers",
    "num_envs_per_worker": "num_envs",
    "num_envs_per_env_runner": "num_envs",
}

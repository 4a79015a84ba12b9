"""The terms of stage 1's objective, one function each, and the masks they share.

Axes: B programs of L tokens, N demonstrations of T steps, V tokens of the vocabulary. Every loss is
a scalar tensor, `[]` float32.
"""

import torch
from torch import Tensor
from torch.nn import functional

from pomp.embedding.model import Posterior


def up_to_first(values: Tensor, end: int) -> Tensor:
    """Return `[..., T]` bool: the steps up to the first `end` included, or all if there is none.

    Args:
        values: `[..., T]` int64.
        end: the value looked for.
    """
    ends = (values == end).long()
    return ends.cumsum(dim=-1) - ends == 0


def counted(targets: Tensor, predicted: Tensor, end: int) -> Tensor:
    """Return `[..., T]` bool: the steps that count for a loss or an accuracy.

    These are the steps before the target's end, and those up to the first predicted end included.

    Args:
        targets: `[..., T]` int64.
        predicted: `[..., T]` int64.
        end: the value that means the end.
    """
    return (targets != end) | up_to_first(predicted, end)


def masked_cross_entropy(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Return the mean cross-entropy over the steps of a mask, `[]`.

    Args:
        logits: `[..., T, V]` float32.
        targets: `[..., T]` int64.
        mask: `[..., T]` bool.
    """
    values = functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    return (values * mask.flatten()).sum() / mask.sum()


def program_reconstruction(logits: Tensor, targets: Tensor, pad: int) -> Tensor:
    """Return the reconstruction half of L_P, `[]`: the cross-entropy of the program's tokens.

    Args:
        logits: `[B, L, V]` float32, masked by the grammar.
        targets: `[B, L]` int64, the tokens behind `DEF`, padded.
        pad: the padding's id.
    """
    mask = counted(targets, logits.argmax(dim=-1), pad)
    return masked_cross_entropy(logits, targets, mask)


def kl_divergence(posterior: Posterior) -> Tensor:
    """Return the mean KL of posteriors `[B, Z]` to the standard normal, `[]`, over both axes."""
    mean, log_sigma = posterior
    return 0.5 * (mean**2 + torch.exp(2 * log_sigma) - 2 * log_sigma - 1).mean()


def latent_behaviour_reconstruction(logits: Tensor, targets: Tensor, no_op: int) -> Tensor:
    """Return L_L, `[]`: the cross-entropy of the demonstrations' actions under the policy.

    Paper: the policy is unrolled for 99 steps. Here it is unrolled to the longest demonstration of
    the batch and one step more. What that changes: steps beyond it count only while the policy has
    not yet predicted an end, so a policy that overruns pays for fewer of the steps it overruns by.

    Args:
        logits: `[N, T, 6]` float32; the steps past the unrolling do not count.
        targets: `[N, T]` int64, the actions, then `no_op`.
        no_op: the action that means the end.
    """
    goes_on = (targets[:, :-1] != no_op).any(dim=0)  # in some demonstration, before this step
    is_unrolled = functional.pad(goes_on, (1, 0), value=True)
    mask = counted(targets, logits.argmax(dim=-1), no_op) & is_unrolled
    return masked_cross_entropy(logits, targets, mask)


def program_behaviour_reconstruction(
    logits: Tensor, tokens: Tensor, rewards: Tensor, pad: int, entropy_weight: float
) -> Tensor:
    """Return L_R without its KL term, `[]`: REINFORCE on sampled programs.

    Args:
        logits: `[B, L, V]` float32, masked by the grammar, along the sampled tokens.
        tokens: `[B, L]` int64, the sampled tokens behind `DEF`.
        rewards: `[B]` float32, how far their behaviour agrees, normalised over the update.
        pad: the padding's id.
        entropy_weight: the weight of the mean entropy of a token.
    """
    log_probs = functional.log_softmax(logits, dim=-1)
    mask = up_to_first(tokens, pad)
    token_losses = functional.nll_loss(log_probs.flatten(0, 1), tokens.flatten(), reduction="none")
    program_log_probs = -(token_losses.view(tokens.shape) * mask).sum(dim=1)
    # A forbidden token has probability zero and a huge log: its product is zero, never NaN.
    entropy = -(log_probs.exp() * log_probs).sum(dim=2)
    mean_entropy = (entropy * mask).sum() / mask.sum()
    return -(rewards * program_log_probs).mean() - entropy_weight * mean_entropy


def normalise(rewards: Tensor) -> Tensor:
    """Normalise `rewards` `[B]` float32 to mean 0 and standard deviation 1; return `[B]`."""
    return (rewards - rewards.mean()) / (rewards.std() + 1e-5)

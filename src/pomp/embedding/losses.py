"""The terms of stage 1's objective, one function each, and the masks they share."""

import torch
from torch import Tensor
from torch.nn import functional

from pomp.embedding.model import Posterior


def up_to_first(values: Tensor, end: int) -> Tensor:
    """`[..., T]` bool: the steps up to and including the first `end`; all if there is none."""
    ends = (values == end).long()
    return ends.cumsum(dim=-1) - ends == 0


def counted(targets: Tensor, predicted: Tensor, end: int) -> Tensor:
    """`[..., T]` bool: the steps a loss or an accuracy looks at.

    Those where the target goes on, and those up to and including the first predicted end.
    """
    return (targets != end) | up_to_first(predicted, end)


def masked_cross_entropy(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Mean cross-entropy over the masked steps: `[..., T, V]` and twice `[..., T]` to a number."""
    values = functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    return (values * mask.flatten()).sum() / mask.sum()


def program_reconstruction(logits: Tensor, targets: Tensor, pad: int) -> Tensor:
    """The reconstruction half of L_P: masked token logits against the program's tokens.

    Args:
        logits: `[B, L, V]`, masked by the grammar.
        targets: `[B, L]` int64: the tokens behind `DEF`, padded.
        pad: the padding's id.
    """
    mask = counted(targets, logits.argmax(dim=-1), pad)
    return masked_cross_entropy(logits, targets, mask)


def kl_divergence(posterior: Posterior) -> Tensor:
    """KL to the standard normal, the mean over the batch and over latent dimensions."""
    mean, log_sigma = posterior
    return 0.5 * (mean**2 + torch.exp(2 * log_sigma) - 2 * log_sigma - 1).mean()


def latent_behaviour_reconstruction(logits: Tensor, targets: Tensor, no_op: int) -> Tensor:
    """L_L: the condition policy's action logits against the demonstrations' actions.

    Paper: the policy is unrolled for 99 steps. Here it is unrolled to the longest demonstration of
    the batch and one step more. What that changes: steps beyond it count only while the policy has
    not yet predicted an end, so a policy that overruns pays for fewer of the steps it overruns by.

    Args:
        logits: `[N, T, 6]`, of which the steps past the unrolling are not looked at.
        targets: `[N, T]` int64: the actions, then `no_op`.
        no_op: the action that means the end.
    """
    goes_on = (targets[:, :-1] != no_op).any(dim=0)  # in some demonstration, before this step
    is_unrolled = functional.pad(goes_on, (1, 0), value=True)
    mask = counted(targets, logits.argmax(dim=-1), no_op) & is_unrolled
    return masked_cross_entropy(logits, targets, mask)


def program_behaviour_reconstruction(
    logits: Tensor, tokens: Tensor, rewards: Tensor, pad: int, entropy_weight: float
) -> Tensor:
    """L_R without its KL term: REINFORCE on sampled programs.

    Args:
        logits: `[B, L, V]`, masked by the grammar, along the sampled tokens.
        tokens: `[B, L]` int64: the sampled tokens behind `DEF`.
        rewards: `[B]`: how far their behaviour agrees, normalised over the update.
        pad: the padding's id.
        entropy_weight: how much the mean entropy of a token is worth.
    """
    log_odds = functional.log_softmax(logits, dim=-1)
    mask = up_to_first(tokens, pad)
    missed = functional.nll_loss(log_odds.flatten(0, 1), tokens.flatten(), reduction="none")
    log_probability = -(missed.view(tokens.shape) * mask).sum(dim=1)
    # A forbidden token has probability zero and a huge log: its product is zero, never NaN.
    entropy = -(log_odds.exp() * log_odds).sum(dim=2)
    mean_entropy = (entropy * mask).sum() / mask.sum()
    return -(rewards * log_probability).mean() - entropy_weight * mean_entropy


def normalise(rewards: Tensor) -> Tensor:
    """Rewards less their mean, by their standard deviation."""
    return (rewards - rewards.mean()) / (rewards.std() + 1e-5)

"""A training loop of one's own in the place of the bundled one; everything around it stays.

Model, sharding, data, checkpoints, resume, preemption, run record, progress line, logs and exit codes are those of
`training.train`, and so are the flags. This loop leaves out the update of a step whose gradient is far larger than the
clipping bound, instead of clipping it: a bad batch then does no harm.

    python docs/examples/own_loop.py --num-workers=0 --steps=20 --run-path=runs/own-loop
"""

from __future__ import annotations

import math

import torch

from training.session import Session
from training.step import gradients, learning_rate
from training.train import start

SPIKE = 10.0  # times the clipping bound


def train(session: Session) -> None:
    """Called on every rank, with the model on the device and the checkpoint loaded."""
    config, model, optimizer = session.config, session.model, session.optimizer
    bound = config.optimizer.gradient_clip or math.inf  # 0: no clipping
    for step in session.steps():
        lr = learning_rate(config.schedule, config.optimizer.learning_rate, step)
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss = gradients(model, session.batch(step), config)
        # Equal on all ranks, so that all of them decide the same.
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), bound).full_tensor()
        if norm < SPIKE * bound:
            optimizer.step()
        else:
            session.say(f"step {step} left out: its gradient has the norm {float(norm):.1f}")
        optimizer.zero_grad()
        session.report(step, loss, gradient_norm=norm, lr=lr)


if __name__ == "__main__":
    start(train)

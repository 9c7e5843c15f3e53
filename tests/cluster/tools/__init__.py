"""Go programs that hold a consumer's own judgement (KubeRay's operator, eksctl), and their builder."""

"""Images that generative models make from a class: BigGAN-deep and Stable Diffusion."""

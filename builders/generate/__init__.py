"""Images that do not exist upstream, all made through one contract: resized images, arrays stored as PNG, noise."""

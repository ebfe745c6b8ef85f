"""What a mechanism is: joints, bodies, frames; validated once, immutable."""

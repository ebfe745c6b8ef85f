"""Published problems of multibody dynamics: models, reference values, and who found them."""

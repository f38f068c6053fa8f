"$MILLRACE" ops random_flip --json

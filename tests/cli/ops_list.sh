# Some lines only: a new op must not need a change here.
"$MILLRACE" ops >list || exit
grep -E '^(Sources|Ops|More)|^  (files|random_flip|center_crop) ' list

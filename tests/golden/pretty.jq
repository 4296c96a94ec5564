# JSON for people: one fact a line, or a whole value where it fits on one; keys stay in their order.
def pretty($indent):
    tojson as $line
    | if ($line | length) + ($indent | length) <= 100 or (scalars | true) // false then $line
      else
          ($indent + "  ") as $deeper
          | if type == "object" then
                "{\n" + (to_entries | map($deeper + (.key | tojson) + ": " + (.value | pretty($deeper))) | join(",\n"))
                + "\n" + $indent + "}"
            else "[\n" + (map($deeper + pretty($deeper)) | join(",\n")) + "\n" + $indent + "]" end
      end;
pretty("")

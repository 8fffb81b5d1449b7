# Completion of weir for fish: weir completion fish | source
function __weir_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l answer ($words[1] completion fish -- $words[2..-1] "$last" 2>/dev/null)
    if string match -q ':files*' -- $answer
        set -l head (string match -r '^--[^=]*=' -- "$last")
        string replace -r -- '^' "$head" (__fish_complete_path (string replace -- "$head" '' "$last"))
    else
        printf '%s\n' $answer
    end
end
complete -c weir -f -a '(__weir_complete)'

# Completion of weir for bash: source <(weir completion bash)
_weir() {
  local answer line
  COMPREPLY=()
  answer=$("${1/#\~/$HOME}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
  if [[ $answer == :files* ]]; then
    compopt -o default # of readline, which completes names of files
    return
  fi
  while IFS= read -r line; do
    [[ -z $line ]] || COMPREPLY+=("${line%%$'\t'*}")
  done <<<"$answer"
}
complete -F _weir weir

# Completion of weir for bash: source <(weir completion bash)
_weir() {
  local answer line word n=0
  local -a words
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if ((n > 0)) && [[ $word == = || ${words[n-1]} == --*= ]]; then # bash splits --flag=value into three words
      words[n-1]+=$word
    else
      words[n++]=$word
    fi
  done
  answer=$("${1/#\~/$HOME}" completion bash -- "${words[@]}" 2>/dev/null) || return
  if [[ $answer == :files* ]]; then
    compopt -o default # readline's completion, which completes file names
    return
  fi
  while IFS= read -r line; do
    line=${line%%$'\t'*}
    [[ ${words[n-1]} != --*=* ]] || line=${line#*=}
    [[ -z $line ]] || COMPREPLY+=("$line")
  done <<<"$answer"
}
complete -F _weir weir

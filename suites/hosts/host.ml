(* OCaml, by C stubs: what it recovers from are overflows of its stack. *)
external install : unit -> unit = "ml_install"
external stall : unit -> unit = "ml_stall"
external crash : unit -> unit = "ml_crash"
external uninstall : unit -> unit = "ml_uninstall"

let rec deep n = 1 + deep (n + 1)

let () =
  install ();
  (match Sys.argv.(1) with
  | "recover" ->
    let came = ref 0 in
    for _ = 1 to 10_000 do
      try ignore (deep 0) with Stack_overflow -> incr came
    done;
    Printf.printf "recovered %d\n%!" !came
  | "stall" -> stall ()
  | "crash" -> crash ()
  | _ -> Printf.printf "%d\n" (deep 0));
  uninstall ()

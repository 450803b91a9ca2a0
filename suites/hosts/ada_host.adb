--  Ada: what it recovers from are null pointers that the processor finds, as exceptions.
pragma Suppress (Access_Check);
with Ada.Command_Line; with Ada.Text_IO;
procedure Ada_Host is
   procedure Install with Import, Convention => C, External_Name => "host_install";
   procedure Stall with Import, Convention => C, External_Name => "host_stall";
   procedure Crash with Import, Convention => C, External_Name => "host_crash";
   procedure Uninstall with Import, Convention => C, External_Name => "host_uninstall";
   type Word is access all Integer with Volatile;
   Nothing : Word := null with Volatile;
   Came : Natural := 0;
   What : constant String := Ada.Command_Line.Argument (1);
begin
   Install;
   if What = "recover" then
      for I in 1 .. 10_000 loop
         begin
            Nothing.all := I;
         exception
            when others => Came := Came + 1;
         end;
      end loop;
      Ada.Text_IO.Put_Line ("recovered" & Came'Image);
   elsif What = "stall" then
      Stall;
   elsif What = "crash" then
      Crash;
   else
      Nothing.all := 1;
   end if;
   Uninstall;
end Ada_Host;

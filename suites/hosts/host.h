/* The recorder within a host, as the host's own language calls it. */
#ifndef HOST_H
#define HOST_H

#ifdef __cplusplus
extern "C" {
#endif

/* Installs the recorder in the folder that HOST_FOLDER names, on the calling thread; without one does nothing. */
void host_install(void);
/* Computes for 700 ms, within one turn. */
void host_stall(void);
/* Writes to address 16, in C. */
void host_crash(void);
/* Ends the recorder. */
void host_uninstall(void);

#ifdef __cplusplus
}
#endif
#endif

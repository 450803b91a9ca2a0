/* Java's view of the recorder. */
#include "host.h"
#include <jni.h>

JNIEXPORT void JNICALL Java_Host_install(JNIEnv *e, jclass c) { (void)e, (void)c, host_install(); }
JNIEXPORT void JNICALL Java_Host_stall(JNIEnv *e, jclass c) { (void)e, (void)c, host_stall(); }
JNIEXPORT void JNICALL Java_Host_crash(JNIEnv *e, jclass c) { (void)e, (void)c, host_crash(); }
JNIEXPORT void JNICALL Java_Host_uninstall(JNIEnv *e, jclass c) { (void)e, (void)c, host_uninstall(); }

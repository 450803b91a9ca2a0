// `rethrow FOLDER`: an exception of Foundation is caught, thrown again, and caught by nobody.
#import <Foundation/Foundation.h>
#include "../embedded/app.h"

KEEP static id opens(NSUInteger drawer) {
  id page = [@[ @"first" ] objectAtIndex:drawer];
  AFTER;
  return page;
}

int main(int count, char **arguments) {
  @autoreleasepool {
    begin("rethrow", count > 1 ? arguments[1] : ".");
    @try {
      opens(9);
    } @catch (NSException *exception) {
      @throw;
    }
  }
  return 0;
}

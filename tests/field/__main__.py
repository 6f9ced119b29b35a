from tests.field.run import main

raise SystemExit(main())
